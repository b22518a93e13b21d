#pragma once

// What runs the layout that the planner found.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/plan/named_model.h"
#include "planner/search.h"

namespace lockstep::app {

/// group.key=value, for what differs from one rank that has everything.
std::vector<std::string> settings_of(const planner::Work& work, const planner::Candidate& candidate);
/// The whole command, by `recipe`, or where that is empty and the model has a name, without one.
std::string command_of(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate,
                       const std::string& recipe);
/// What train --config takes, as to_toml() writes it.
RunConfig recipe_of(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate);

/// The layout for the system that it was planned for, where that is another: arguments of Megatron-LM (core 0.20) or torchtitan
/// (0.2), one a line, or DeepSpeed's JSON (0.17). Throws UserError for a system whose layout is in its users' code (fsdp).
std::string exported(const planner::Work& work, const planner::Candidate& candidate, std::int64_t global_batch);
/// Whether a file is a recipe or what exported() made.
bool is_own_winner(std::string_view head);

}  // namespace lockstep::app
