#pragma once

// What there is to say about state that ranks cut among them or keep elsewhere, about layers that they divide, and about what
// numerics.canonical takes.

#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "train/engine_config.h"

namespace lockstep::app {

/// Lines beside the memory's table; none where each rank keeps everything.
std::vector<std::string> notes_on_cut_state(const train::EngineConfig& config);

/// Lines about what memory.offload_* move. `elsewhere`: where an engine keeps that, once it does.
std::vector<std::string> notes_on_offload(const RunConfig& config, const train::EngineConfig& settings,
                                          const std::string& elsewhere = {});

/// Lines about what memory.tiles cuts; none where it asks for nothing.
std::vector<std::string> notes_on_tiles(const RunConfig& config, const train::EngineConfig& settings);

}  // namespace lockstep::app
