#pragma once

// The planner's errors so far: predictions.jsonl, beside the folders of the runs, has a line a check.

#include <string>

#include "app/plan/predicted_run.h"

namespace lockstep::app {

/// Adds a line about the run, and says how far off the predictions of all runs beside it on the same machine are, each as it was
/// checked last; or why the line was not kept.
std::string keep_errors(const MeasuredRun& run, const planner::Machine& machine, const RunComparison& comparison);

}  // namespace lockstep::app
