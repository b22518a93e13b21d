#pragma once

// `lockstep help config`: every setting with its default, meaning, unit and what is allowed, from the table that reads it.

#include <string>
#include <string_view>

#include "base/text/paint.h"

namespace lockstep::settings {

/// How settings are written, and which counts.
inline constexpr std::string_view settings_grammar =
    "Settings are written group.key=value, or key=value where no other group has the key; group=option sets a bundle of them.\n"
    "Order: defaults, --config FILE, bundles, single settings; a later one wins. Values: null, true, false, numbers, text.\n"
    "In a file (TOML): [group], key = value, \"null\" for null.\n";

/// `topic`: "" for everything, a group ("train") or a key ("train.max_iters"). Throws UserError naming the nearest for another.
std::string config_help(std::string_view topic, int columns, const Paint& paint = {});

}  // namespace lockstep::settings
