#pragma once

// One rank's share of a training run: stores, stage and optimizer in their arenas, and the optimizer step over them
// (architecture.md section 6). Knows nothing of files, logs or evaluation plans.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/parameters.h"
#include "comm/communicator.h"
#include "data/batch.h"
#include "device/runtime.h"
#include "layout/access_order.h"
#include "model/stage.h"
#include "ops/ops.h"
#include "parallel/zero/parameters.h"
#include "tensor/ledger.h"
#include "train/engine_config.h"
#include "train/updater.h"
#include "train/weight_queue.h"

namespace lockstep::train {

class Engine {
 public:
  /// Declares everything, allocates nothing. The arguments outlive the engine. `world`: the ranks that train. By default they are
  /// replicas that update their weights together.
  Engine(const EngineConfig& config, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
         const UpdaterFactory& make_updater = make_replicas);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Bytes that commit() takes, by owner: the same before and after.
  Ledger ledger() const;
  /// Allocates. Once.
  void commit();
  /// Start values from the seed.
  void initialise();
  /// Every rank takes rank 0's weights and moments, of a run that has done `step` steps; checked by a hash. Collective; after
  /// initialise() and after loading. Throws SystemError when the ranks differ afterwards.
  void broadcast_state(std::int64_t step = 0);

  /// One optimizer step: forward and backward of `batches`, reduction, norm, clipping, AdamW. `step` counts from 0.
  StepResult step(std::span<const data::Batch> batches, std::int64_t target_count, std::int64_t step, double learning_rate);
  /// Sum of the token losses of a batch with the current weights.
  double evaluate(const data::Batch& batch);

  const EngineConfig& config() const { return config_; }
  comm::Communicator& world() const { return world_; }
  /// Samples of a step, over all ranks.
  std::int64_t global_batch() const { return config_.samples * config_.microbatches * world_.size(); }
  const model::Context& context() const { return context_; }

  /// What ranks do together beside steps: see train/updater.
  Updater& updater() { return *updater_; }

  /// One parameter of this rank with everything that training keeps of it.
  struct ParameterState {
    std::string name;
    // In the parameter's shape; moments are empty where this rank has none.
    Tensor weight;  ///< what is updated: the master copy where there is one
    Tensor gradient, exp_avg, exp_avg_sq;
  };
  /// In the order of the model's table; after commit().
  std::vector<ParameterState> state();
  /// After weights were written from outside (a checkpoint).
  void weights_changed() { parallel::publish(parameters_, ops_.elementwise()); }

 private:
  static std::unique_ptr<Updater> make_replicas(const UpdaterParts& parts);

  EngineConfig config_;
  Runtime& runtime_;
  ops::Ops& ops_;
  comm::Communicator& world_;
  std::vector<arch::UnitSpec> table_;
  Arena parameter_arena_, master_arena_, gradient_arena_, optimizer_arena_, activation_arena_, workspace_arena_;
  parallel::ZeroParameters parameters_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<parallel::Boundary> boundary_;
  model::Context context_;
  ImmediateWeights sink_;
  model::Stage stage_;
  std::vector<layout::Action> actions_;
  std::vector<layout::Access> order_;
  ops::StepScalars scalars_;
};

}  // namespace lockstep::train
