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

}  // namespace lockstep::app
