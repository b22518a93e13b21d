#pragma once

// What settings say of the training loop.

#include <cstdint>
#include <optional>

#include "app/settings/run_config.h"
#include "checkpoint/manifest.h"
#include "train/trainer.h"

namespace lockstep::app {

/// The loop has `max_iters` iterations. `scaling`: what optimizer.lr_scaling takes as the number of ranks.
train::TrainerOptions trainer_options_of(const RunConfig& config, std::int64_t max_iters, std::int64_t scaling);

/// Where a checkpoint's `run` has that number.
inline constexpr const char* scaling_key = "lr_scaling_ranks";
/// That number of the checkpoint's run, which a resume keeps with the samples of a step, `batch`; none: the checkpoint has none,
/// or another batch.
std::optional<std::int64_t> kept_scaling(const checkpoint::Manifest& manifest, std::int64_t batch);

}  // namespace lockstep::app
