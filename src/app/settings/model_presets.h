#pragma once

// Named models: model=NAME. A family is a table of sizes and the settings that its members share.

#include <vector>

#include "app/settings/presets.h"

namespace lockstep::settings {

std::vector<Preset> model_presets();

}  // namespace lockstep::settings
