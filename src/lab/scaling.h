#pragma once

// How a training step scales with the ranks: strong (one shape, its samples shared) and weak (a shape a rank).

#include <string>
#include <vector>

#include "base/text/answer.h"

namespace lockstep::lab {

/// The speed with one number of ranks.
struct ScalingRow {
  int ranks = 1;
  double tokens_per_second = 0;
  double step_seconds = 0;
  double exposed_seconds = 0;  ///< of a step, waiting for gradients of other ranks
};

/// Rows by ascending ranks. The others are compared with the first one.
struct ScalingCurve {
  std::string kind;  ///< "strong", "weak"
  std::vector<ScalingRow> rows;
  /// Tokens/s over those of the first row.
  double speed_up(std::size_t row) const;
  /// Speed-up over the growth in ranks: 1 is perfect.
  double efficiency(std::size_t row) const;
};

/// A table for each curve, and a plot of the speed-ups where there are several rows.
Answer answer_of(const std::string& shape, const std::vector<ScalingCurve>& curves);

}  // namespace lockstep::lab
