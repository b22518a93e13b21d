#include "train/pipeline_runner.h"

#include "base/timer.h"

namespace lockstep::train {

PipelineResult run_actions(const std::vector<layout::Action>& actions, model::Stage& stage, std::span<const data::Batch> batches,
                           std::int64_t step, const Tensor& scale) {
  PipelineResult result;
  for (const layout::Action& action : actions) {
    const data::Batch& batch = batches[static_cast<std::size_t>(action.microbatch.value)];
    const model::Pass pass{.samples = batch.samples,
                           .positions = batch.positions,
                           .first_sample = static_cast<std::int64_t>(batch.first_sample),
                           .step = step,
                           .training = true};
    const double start = now_seconds();
    if (action.kind == layout::Action::Kind::forward) {
      result.loss_sum += stage.forward(pass, action.microbatch, batch.tokens, batch.targets, scale);
      result.forward_seconds += now_seconds() - start - stage.gradient_seconds();
      result.backward_seconds += stage.gradient_seconds();
    } else {
      stage.backward(pass, action.microbatch);
      result.backward_seconds += now_seconds() - start;
    }
  }
  return result;
}

}  // namespace lockstep::train
