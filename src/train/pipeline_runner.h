#pragma once

// Executes a stage's list of actions.

#include <span>
#include <vector>

#include "data/batch.h"
#include "layout/pipeline_schedule.h"
#include "model/stage.h"

namespace lockstep::train {

/// What a run of the actions gave.
struct PipelineResult {
  double loss_sum = 0;          ///< of all token losses
  double forward_seconds = 0;   ///< the head's gradient left out
  double backward_seconds = 0;  ///< with the head's gradient
};

/// `batches[m]` is micro-batch m; `scale` see model::Head; `step` addresses dropout masks.
PipelineResult run_actions(const std::vector<layout::Action>& actions, model::Stage& stage, std::span<const data::Batch> batches,
                           std::int64_t step, const Tensor& scale);

}  // namespace lockstep::train
