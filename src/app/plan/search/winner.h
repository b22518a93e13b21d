#pragma once

// What runs the layout that the planner found.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/plan/named_model.h"
#include "planner/search.h"

namespace lockstep::app {

/// The layout's settings, as group.key=value, where it differs from one rank that has everything.
std::vector<std::string> settings_of(const planner::Work& work, const planner::Candidate& candidate);
/// The whole command, by `recipe`, or where that is empty and the model has a name, without one.
std::string command_of(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate,
                       const std::string& recipe);
/// The recipe of the layout for train --config, which to_toml() writes.
RunConfig recipe_of(const NamedModel& model, const planner::Work& work, const planner::Candidate& candidate);

}  // namespace lockstep::app
