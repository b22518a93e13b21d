#pragma once

// Layouts as other systems take them.

#include <cstdint>
#include <string>
#include <string_view>

#include "app/plan/named_model.h"
#include "planner/step_time.h"

namespace lockstep::app {

/// The layout for the system that it was planned for: arguments of Megatron-LM (core 0.20) or torchtitan (0.2), one a line, or
/// DeepSpeed's JSON (0.17). Throws UserError for a system whose layout is in its users' code (fsdp), and for a model that the
/// system lacks.
std::string exported(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate,
                     std::int64_t global_batch);
/// Whether a file that begins with `head` is a layout that exported() writes.
bool is_exported(std::string_view head);

}  // namespace lockstep::app
