#pragma once

// Compares what the ranks of a run have with a record of another run, while they train.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lab/verify/run_record.h"

namespace lockstep::lab {

/// How a compared run goes on from step to step.
enum class Going : std::uint8_t {
  free,  ///< on its own: everything has to have the record's bits
  led  ///< each step begins with the record's weights and slots, and each update has its gradient: only what a step makes of them
       ///< may differ, for the first steps of AdamW are close to lr sign(g), and make much of little
};

/// Kinds of quantities that are compared, in the order in which a step has them.
enum class Quantity : std::uint8_t { drawn, read, gradient, loss, norm, weight, slot, evaluation };

/// A tensor, or a number, that differs.
struct Finding {
  Quantity quantity = Quantity::loss;
  int step = 0;
  int slot = 0;                    ///< of Quantity::slot
  int parameter = -1;              ///< of the record's model; -1: a number
  int rank = 0;                    ///< the rank that has it; of several the one with the largest error
  double error = 0;                ///< ||a - b|| / max(||b||, 1e-6 x ||all gradients||), or |a - b| / |b| of numbers
  std::int64_t element = 0;        ///< the first element that differs on the rank
  double value = 0, expected = 0;  ///< of that element
};

/// Collects the differences that the ranks of one run find.
class Comparison {
 public:
  /// The record outlives this.
  Comparison(const RunRecord& record, Going going, int ranks);
  /// The observer for rank `rank`, which alone uses it. This outlives it.
  std::unique_ptr<RankObserver> observer(int rank);
  /// The differences, in the order of steps, quantities and parameters; after the run.
  std::vector<Finding> findings() const;
  /// Names of tensors with elements that no rank answers for, or more than one; empty: none. For a run that came to its end.
  std::vector<std::string> miscounted() const;

 private:
  class Rank;
  /// A rank's part of a tensor.
  struct Part {
    Finding finding;               ///< without its error
    double held = 0, counted = 0;  ///< squares of differences, added over what the rank holds, and over what it answers for
  };
  /// A finding's step, quantity, slot and parameter.
  using Key = std::array<int, 4>;
  struct RankFindings {
    std::map<Key, Part> parts;
    std::vector<std::int64_t> answered;  ///< elements that the rank answers for, by slot (the last: weights), then by parameter
  };
  /// The record's values for a finding.
  const WholeValues& expected(const Finding& finding) const;

  const RunRecord& record_;
  Going going_;
  std::vector<RankFindings> ranks_;
};

}  // namespace lockstep::lab
