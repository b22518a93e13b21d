#pragma once

// A run that has trained, held against what the planner says of it for a machine that a file describes.

#include <string>

#include "app/plan/measured_run.h"
#include "planner/machine.h"

namespace lockstep::app {

/// The machine of a file or a preset, as the run's ranks have it. Throws UserError where hosts had different numbers of ranks, or
/// the machine cannot have them.
planner::Machine machine_for(const MeasuredRun& run, const std::string& named);

/// What a run says at its end: the step and the memory of training, predicted and measured, or why there is no prediction. Adds a
/// line to the predictions.jsonl beside its folder.
std::string prediction_line(const io::Path& run, const std::string& machine);

}  // namespace lockstep::app
