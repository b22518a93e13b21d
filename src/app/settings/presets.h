#pragma once

// Bundles of settings: group=option on the command line.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lockstep::settings {

struct Preset {
  std::string group, option;
  std::vector<std::string> assignments;  // "group.key=value"
};

/// All of them: train=, data=, model=, optimizer= and experiment= (several groups at once).
const std::vector<Preset>& presets();
/// The preset of "group=option" (a leading '+' is allowed), or what is wrong with it.
const Preset* find_preset(std::string_view group, std::string_view option);
/// The problem of a group=option that is none.
Problem unknown_preset(std::string_view group, std::string_view option);
/// "shakespeare, owt, yelp": the options of a group; empty when it has none.
std::string options_of(std::string_view group);

}  // namespace lockstep::settings
