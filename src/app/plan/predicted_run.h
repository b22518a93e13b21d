#pragma once

// A run predicted by the planner and held against what it measured.

#include <optional>
#include <string>
#include <vector>

#include "app/plan/measured_run.h"
#include "planner/step_time.h"

namespace lockstep::app {

struct ComparedFigure {
  std::string name;
  double predicted, measured;
  /// How much too much was predicted, from -1 on; none where nothing was measured.
  std::optional<double> error() const { return measured > 0 ? std::optional(predicted / measured - 1) : std::nullopt; }
};

struct RunComparison {
  std::string layout;                  ///< in words
  std::vector<ComparedFigure> memory;  ///< bytes of rank 0's training by kind; last, all of it
  /// Parts of a step on rank 0. Behind them are the bubble (of all ranks) and the waiting by kind of operation ("in all_reduce"),
  /// which these parts contain. The last is the whole step.
  std::vector<ComparedFigure> seconds;
};

/// The system as the run's settings have it: its type of numbers, and whether it overlaps.
planner::System system_of(const RunConfig& config, const planner::System& system = planner::own_system);

/// The run's layout, as the planner takes it.
struct RunWork {
  planner::Work work;
  planner::Candidate candidate;
};
/// Throws UserError where the machine's ranks cannot have it.
RunWork work_of(const MeasuredRun& run, const planner::Machine& machine);

/// Compares the run with its prediction for `machine`, which has as many ranks as the run had. Memory is what the engine declares
/// for the layout. Time is the planner's, rank 0's passes with what they wait for. Throws UserError where these ranks cannot have
/// the run's layout.
RunComparison compare(const MeasuredRun& run, const planner::Machine& machine);

}  // namespace lockstep::app
