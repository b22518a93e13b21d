#pragma once

// --calibrate: rates of a machine from a measured run, or from tokens a second that the user gives.

#include <string>

#include "app/plan/named_model.h"
#include "base/text/answer.h"
#include "planner/calibration.h"
#include "planner/enumerate.h"

namespace lockstep::app {

/// Factors of the machine's rates that make the planner agree with a measurement. `text` is a run, "runs/a", or a layout with its
/// tokens a second, "tp=2,dp=4: 12000". The run trained on `machine`, as --machine has it; the layout has the question's model
/// and samples. `answer` tells the factors. Throws UserError for any other text, and for tokens that the machine cannot reach.
planner::RateFactors calibrated(const std::string& text, const NamedModel& model, const planner::SearchQuestion& question,
                                const std::string& machine, Answer& answer);

/// The factors by the tokens a second that one layout reached on the question's machine.
planner::RateFactors calibrated_by(double tokens, const planner::Work& work, const planner::Candidate& candidate,
                                   std::int64_t global_batch, Answer& answer);

}  // namespace lockstep::app
