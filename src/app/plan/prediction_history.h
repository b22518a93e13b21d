#pragma once

// The planner's errors so far: predictions.jsonl, beside the folders of the runs, has a line a check.

#include <string>

#include "app/plan/predicted_run.h"

namespace lockstep::app {

/// Adds a line about the run to the file. Returns how far off the predicted steps of the runs in it are, on the same machine,
/// each run by its last check. Where the line cannot be kept, the text says why.
std::string keep_errors(const MeasuredRun& run, const planner::Machine& machine, const RunComparison& comparison);

}  // namespace lockstep::app
