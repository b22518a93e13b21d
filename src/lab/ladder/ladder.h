#pragma once

// Climbs the optimisation ladder: what each rung changes in tokens a second and in memory. A rung is compared with the one before
// it or, with `each`, with rung 0. A round measures every rung once, upwards and downwards in turns. So a machine whose speed
// changes does so for all rungs.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/text/answer.h"
#include "device/runtime.h"
#include "lab/ladder/rungs.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {

/// Speed and memory of one place in one round.
struct LadderSample {
  double tokens_per_second = 0;
  std::int64_t memory_bytes = 0;  ///< of a rank
};

struct LadderRow {
  Rung rung;
  std::vector<LadderSample> before, after;  ///< by round; empty where the rung changes nothing here

  bool measured() const { return !after.empty(); }
  /// Tokens a second, the median over rounds.
  double tokens_before() const;
  double tokens_after() const;
  /// By round: tokens a second of the rung, over those before it.
  std::vector<double> ratios() const;
};

struct LadderReport {
  StepShape shape;
  int cores = 1, rounds = 1;
  bool each = false;            ///< whether every rung is compared with rung 0
  double foot_share = 0;        ///< the share of the multiply-add rate that rung 0's products reach
  std::vector<LadderRow> rows;  ///< the first is rung 0, which has nothing before it

  /// By round: the last rung's tokens a second, over rung 0's. Without `each` alone.
  std::vector<double> totals() const;
};

struct LadderOptions {
  std::vector<Rung> rungs;  ///< rung 0 first
  int cores = 1, rounds = 3;
  bool each = false;
};

/// Trains on a place, and returns its speed and memory.
using MeasurePlace = std::function<LadderSample(const LadderPlace& place)>;

LadderReport climb_ladder(const StepShape& shape, const LadderOptions& options, const MeasurePlace& measure);

Answer answer_of(const LadderReport& report);

/// The share of the multiply-add rate that the layers' products in a step of the shape reach together, in fp32. The rate is
/// measured next to each product. Takes a few seconds.
double product_share(const StepShape& shape, Runtime& runtime, ops::Isa isa, const ops::PlainKernels& kernels);

}  // namespace lockstep::lab
