#pragma once

// What it costs a training step to say how it went: steps alone, with a line of metrics each, and with metrics and a trace, in
// turns.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/text/answer.h"
#include "comm/communicator.h"
#include "device/runtime.h"
#include "io/file.h"
#include "lab/step/bench_step.h"
#include "ops/ops.h"

namespace lockstep::lab {

/// Kinds of steps, in the order of OverheadReport::seconds.
inline constexpr std::array<std::string_view, 3> overhead_kinds{"alone", "metrics", "metrics and trace"};

struct OverheadOptions {
  int rounds = 100;              ///< of a step of each kind
  io::Path folder = ".";         ///< a file of metrics comes and goes in it
  MakeObservedOps observed_ops;  ///< for the trace
};

/// Where the middle half of some values lies.
struct Quartiles {
  double lower = 0, median = 0, upper = 0;
};
/// The quartiles of at least one value. The outer ones are medians of the halves below and above the middle, which is in both.
Quartiles quartiles_of(std::vector<double> values);

struct OverheadReport {
  StepShape shape;
  int ranks = 1;
  std::array<std::vector<double>, overhead_kinds.size()> seconds;  ///< of the slowest rank, by round
  std::int64_t spans = 0;                                          ///< that rank 0 tells of a step

  /// How much longer a step of kind `kind`, 1 or 2, takes than the same round's alone, as a part of that.
  Quartiles overhead(std::size_t kind) const;
};

/// Each rank of `world` takes its part of the shape's samples, in two models of the shape. Collective; the report is rank 0's.
/// Throws UserError when the samples do not divide by the ranks.
OverheadReport bench_overhead(const StepShape& shape, const OverheadOptions& options, Runtime& runtime, ops::Ops& ops,
                              comm::Communicator& world);

Answer answer_of(const OverheadReport& report);

}  // namespace lockstep::lab
