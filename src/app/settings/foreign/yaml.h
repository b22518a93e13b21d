#pragma once

// YAML of other programs' configurations, as the JSON that it stands for. Parsing is yaml-cpp's (yaml.cpp).

#include <string>
#include <string_view>

#include "base/json.h"

namespace lockstep::settings {

/// The one document of `text`. Plain scalars are null, booleans and numbers where they look like them, 5e8 too; quoted ones are
/// texts. Throws UserError with `what` (a file name) and the line of the fault. Faults are: no YAML, a key that stands twice, and
/// aliases that would make much more of the text.
Json json_from_yaml(std::string_view text, const std::string& what);

}  // namespace lockstep::settings
