#pragma once

// What a training engine is made for, and what one of its steps says.

#include <cstdint>
#include <optional>
#include <utility>

#include "arch/parameters.h"
#include "comm/operation.h"
#include "layout/parallel_plan.h"
#include "parallel/noise_scale.h"
#include "parallel/offload/offload_memory.h"
#include "parallel/parameter_store.h"
#include "parallel/zero/gradients.h"
#include "train/objective/objective.h"
#include "train/optimizer/optimizer.h"

namespace lockstep::train {

/// What workers push to parameter servers, and when these act.
enum class ServerMode : std::uint8_t {
  gradients,  ///< servers wait for all workers' gradients, and update once: the same as data parallelism
  weights,    ///< every worker updates its own weights; servers wait for all and average
  async       ///< servers update as each worker's gradient arrives
};

/// Ranks behind those of the plan, which keep the parameters for the ranks of the plan.
struct ParameterServers {
  ServerMode mode = ServerMode::gradients;
  int count = 1;
};

/// What is trained.
struct TrainedModel {
  arch::ModelConfig model = {};
  arch::DecayRule decay = arch::DecayRule::matrices;
  parallel::WeightStorage weights = {};
  OptimizerSettings optimizer = {};
  float grad_clip = 1.0F;    ///< largest norm of the gradient; 0: no clipping
  std::int64_t samples = 1;  ///< of a micro-batch on each rank
  std::int64_t positions = 1;
  /// The token that ends a document, where samples are several documents that do not see each other; none: each is one.
  std::optional<std::int32_t> document_end = {};
  std::uint64_t seed = 1337;
  ObjectiveSettings objective = {};
};

/// How ranks divide the training.
struct DividedTraining {
  layout::ParallelPlan plan = {};                ///< of the ranks that train
  std::optional<ParameterServers> servers = {};  ///< none: the ranks are replicas, which update their weights together
  parallel::GradientOptions gradients = {};
  parallel::OffloadOptions offload = {};  ///< of what the plan offloads
};

/// What goes on beside steps.
struct BesideSteps {
  bool saves_beside = false;      ///< checkpoints are written while the run goes on (train/saving/running_save)
  int copied_pieces = 0;          ///< pieces of copies that each rank has in shared memory (train/saving/copies)
  std::int64_t audit = 0;         ///< one step of so many is audited (train/audit); 0: none is
  std::int64_t traced_steps = 0;  ///< so many steps are traced (train/report/run_trace); 0: none
};

struct EngineConfig : TrainedModel, DividedTraining, BesideSteps {
  /// The type of the optimizer's slots.
  DType slot_type() const { return optimizer.moments.value_or(weights.owned()); }
};

/// Puts a configuration together; the one place that does. `moments`: the type of the optimizer's slots in place of the model's.
inline EngineConfig assemble(TrainedModel model, DividedTraining divided, const BesideSteps& beside = {},
                             std::optional<DType> moments = {}) {
  if (moments) model.optimizer.moments = moments;
  return {std::move(model), std::move(divided), beside};
}

/// The run's staleness so far: updates by other workers between a worker's pull of weights and the update with its gradient.
struct Staleness {
  std::int64_t updates = 0;
  double mean = 0;
  std::int64_t greatest = 0;
};

/// The seconds of a pipeline rank's list of actions in a step.
struct PipelineSeconds {
  double all = 0;      ///< from the first action to the end of the last message
  double waiting = 0;  ///< the part of `all` outside of passes
};

/// What one optimizer step says about itself.
struct StepResult {
  double loss = 0;                       ///< global: sum of token losses over the global number of targets; 0 without any
  std::int64_t targets = 1;              ///< targets, or groups of samples; 0: all were masked, and there was no update
  std::optional<SampleFigures> figures;  ///< of the groups of samples; sums of this rank
  double gradient_norm = 0;
  bool finite = true;  ///< false: the gradient was not finite and the update was left out
  double forward_seconds = 0, backward_seconds = 0, update_seconds = 0;
  double exposed_seconds = 0;               ///< the part of these in which the rank waited for others
  comm::Traffic exchanged;                  ///< of this rank, with other ranks
  std::optional<PipelineSeconds> pipeline;  ///< of this rank, where there is one
  double overlappable_seconds = 0;          ///< backward after the first gradient was complete, which reductions can hide behind
  std::optional<Staleness> staleness;       ///< where workers do not wait for each other
  std::optional<parallel::GradientNoise> noise;   ///< where a step has several micro-batches (train/memory/updater_memory)
  std::optional<parallel::SpillTraffic> offload;  ///< of this rank, where something is offloaded
};

}  // namespace lockstep::train
