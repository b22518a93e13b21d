#pragma once

// A rank's chunks of the model and what it does with them in a step: of it follow what micro-batches keep, what gradients are
// open at a time, and the order of leases.

#include <vector>

#include "layout/pipeline_schedule.h"
#include "model/stage_memory.h"
#include "train/engine_config.h"

namespace lockstep::train {

struct RankSchedule {
  std::vector<layout::Chunk> chunks;
  std::vector<layout::Action> actions;
};
/// One chunk with both ends.
RankSchedule rank_schedule(const EngineConfig& config);

/// Sizes of the memory that the schedule needs; `attention` outlives it.
model::ModelShape model_shape(const EngineConfig& config, const RankSchedule& schedule, parallel::ContextAttention& attention);
/// What its steps add up.
parallel::GradientWork gradient_work(const EngineConfig& config);

}  // namespace lockstep::train
