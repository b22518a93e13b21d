#pragma once

// From settings to a running training: what `train` does, in parts that can be called on their own.

#include <cstdint>

#include "app/run_config.h"
#include "train/engine.h"

namespace lockstep::app {

/// The engine's settings for these settings and a vocabulary.
train::EngineConfig engine_config(const RunConfig& config, std::int64_t vocabulary);

}  // namespace lockstep::app
