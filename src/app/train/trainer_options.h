#pragma once

// What settings say of the training loop.

#include <cstdint>

#include "app/settings/run_config.h"
#include "train/trainer.h"

namespace lockstep::app {

/// The loop has `max_iters` iterations. `replicas` groups of ranks read different samples.
train::TrainerOptions trainer_options_of(const RunConfig& config, std::int64_t max_iters, std::int64_t replicas);

}  // namespace lockstep::app
