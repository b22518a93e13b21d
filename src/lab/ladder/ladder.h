#pragma once

// Climbs the optimisation ladder: what each rung makes of tokens a second and of memory. A rung is compared with the one before
// it, or, one at a time, with rung 0. A round measures every rung once; rounds go upwards and downwards in turns. So a machine
// whose speed changes does so for all rungs.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/text/answer.h"
#include "device/runtime.h"
#include "lab/ladder/rungs.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {

/// What one place reached in one round.
struct LadderSample {
  double tokens_per_second = 0;
  std::int64_t memory_bytes = 0;  ///< of a rank
};

struct LadderRow {
  Rung rung;
  std::vector<LadderSample> before, after;  ///< by round; empty where the rung is missing here

  bool measured() const { return !after.empty(); }
  /// Tokens a second, the median over rounds.
  double tokens_before() const;
  double tokens_after() const;
  /// By round: the rung's tokens a second over those before it.
  std::vector<double> ratios() const;
};

struct LadderReport {
  StepShape shape;
  int cores = 1, rounds = 1;
  bool each = false;            ///< every rung alone, beside rung 0
  double foot_share = 0;        ///< of the rate of multiply-adds, what rung 0's products reach
  std::vector<LadderRow> rows;  ///< the first is rung 0, which has nothing before it

  /// By round: the last rung's tokens a second over rung 0's. Not where each rung stands alone.
  std::vector<double> totals() const;
};

struct LadderOptions {
  std::vector<Rung> rungs;  ///< rung 0 first
  int cores = 1, rounds = 3;
  bool each = false;
};

/// Trains on a place and says how fast.
using MeasurePlace = std::function<LadderSample(const LadderPlace& place)>;

LadderReport climb_ladder(const StepShape& shape, const LadderOptions& options, const MeasurePlace& measure);

Answer answer_of(const LadderReport& report);

/// The share of the rate of multiply-adds that products of the layers in a step of the shape reach together, in fp32. Each
/// product is measured beside the rate of the same moments. Takes a few seconds.
double product_share(const StepShape& shape, Runtime& runtime, ops::Isa isa, const ops::PlainKernels& kernels);

}  // namespace lockstep::lab
