#pragma once

// DeepSpeed's JSON: a layout written as it is, and a job read from it. Names are those of the table that train reads it by
// (app/settings/foreign/deepspeed_options).

#include <cstdint>
#include <string>
#include <string_view>

#include "app/plan/foreign/foreign_job.h"
#include "planner/step_time.h"

namespace lockstep::app::deepspeed {

std::string written(const planner::Work& work, const planner::Candidate& candidate, std::int64_t batch);
bool is_own(std::string_view head);

/// Reads a job, whose model is not in the file. Throws UserError with everything that is wrong.
ForeignJob read(std::string_view text, const std::string& file);

}  // namespace lockstep::app::deepspeed
