#pragma once

// What settings say of the training loop.

#include <cstdint>

#include "app/settings/run_config.h"
#include "train/trainer.h"

namespace lockstep::app {

/// Of a loop of `max_iters` iterations, on so many groups of ranks that read different samples.
train::TrainerOptions trainer_options_of(const RunConfig& config, std::int64_t max_iters, std::int64_t replicas);

}  // namespace lockstep::app
