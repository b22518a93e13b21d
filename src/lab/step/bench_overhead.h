#pragma once

// What metrics and traces cost a training step. Three kinds of steps are timed in turns: steps alone, steps with a line of
// metrics each, and steps with metrics and a trace.

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
  int rounds = 100;              ///< each has a step of each kind
  io::Path folder = ".";         ///< the bench makes a file of metrics in it and removes it
  MakeObservedOps observed_ops;  ///< for the trace
};

/// The bounds of the middle half of some values, and their median.
struct Quartiles {
  double lower = 0, median = 0, upper = 0;
};
/// The quartiles of at least one value. The outer ones are medians of the halves below and above the middle value, which is in
/// both.
Quartiles quartiles_of(std::vector<double> values);

struct OverheadReport {
  StepShape shape;
  int ranks = 1;
  std::array<std::vector<double>, overhead_kinds.size()> seconds;  ///< of the slowest rank, by round
  std::int64_t spans = 0;                                          ///< on rank 0, in a step

  /// How much longer a step of kind `kind`, 1 or 2, takes than one alone in the same round, as a share of the latter.
  Quartiles overhead(std::size_t kind) const;
};

/// Each rank of `world` takes its part of the shape's samples, in two models of the shape. Collective; the report is rank 0's.
/// Throws UserError when the samples do not divide by the ranks.
OverheadReport bench_overhead(const StepShape& shape, const OverheadOptions& options, Runtime& runtime, ops::Ops& ops,
                              comm::Communicator& world);

Answer answer_of(const OverheadReport& report);

}  // namespace lockstep::lab
