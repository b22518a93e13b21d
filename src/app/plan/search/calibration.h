#pragma once

// --calibrate: rates of a machine from a measured run, or from tokens a second that the user gives.

#include <string>

#include "app/plan/named_model.h"
#include "base/text/answer.h"
#include "planner/calibration.h"
#include "planner/enumerate.h"

namespace lockstep::app {

/// "runs/a", which trained on `machine` (as --machine has it), or "tp=2,dp=4: 12000", a layout of the question's model and
/// samples with its tokens a second; says by what each rate is multiplied. Throws UserError for what is neither, and for tokens
/// that the machine cannot reach.
planner::RateFactors calibrated(const std::string& text, const NamedModel& model, const planner::SearchQuestion& question,
                                const std::string& machine, Answer& answer);

/// The same of the tokens that one layout reached on the question's machine.
planner::RateFactors calibrated_by(double tokens, const planner::Work& work, const planner::Candidate& candidate,
                                   std::int64_t global_batch, Answer& answer);

}  // namespace lockstep::app
