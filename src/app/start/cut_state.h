#pragma once

// What there is to say about state that ranks cut among them, and about layers that they divide.

#include <string>
#include <vector>

#include "train/engine_config.h"

namespace lockstep::app {

/// Lines beside the memory's table; none where each rank keeps everything.
std::vector<std::string> notes_on_cut_state(const train::EngineConfig& config);

}  // namespace lockstep::app
