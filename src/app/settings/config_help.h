#pragma once

// `lockstep help config`: every setting with its default, meaning, unit and what is allowed, from the table that reads it.

#include <string>
#include <string_view>

namespace lockstep::settings {

/// `topic`: "" for everything, a group ("train") or a key ("train.max_iters"). Throws UserError naming the nearest for another.
std::string config_help(std::string_view topic);

}  // namespace lockstep::settings
