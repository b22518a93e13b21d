#pragma once

// Megatron-LM's arguments: a layout written as they are, and a job read from them.

#include <cstdint>
#include <string>
#include <string_view>

#include "app/plan/foreign/foreign_job.h"
#include "app/plan/named_model.h"
#include "planner/step_time.h"

namespace lockstep::app::megatron {

/// The layout as arguments, one a line. Throws UserError for a model that has no arguments there.
std::string written(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch);
bool is_own(std::string_view head);

/// Reads the arguments in a shell script or a list, the model's too. Throws UserError with everything that is wrong.
ForeignJob read(std::string_view text, const std::string& file);

}  // namespace lockstep::app::megatron
