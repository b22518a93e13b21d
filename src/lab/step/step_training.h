#pragma once

// A model of one shape that is trained on one batch, again and again. Benches of steps time it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "data/batch.h"
#include "device/runtime.h"
#include "lab/layouts.h"
#include "lab/step/step_shapes.h"
#include "ops/ops.h"
#include "parallel/parameter_store.h"
#include "train/engine.h"

namespace lockstep::lab {

/// Random tokens, with the next token as target. It is part `part` of `parts` of the shape's samples, in micro-batches.
class FixedBatches {
 public:
  FixedBatches(const StepShape& shape, int part, int parts, int microbatches);
  FixedBatches(const FixedBatches&) = delete;
  FixedBatches& operator=(const FixedBatches&) = delete;
  std::span<const data::Batch> all() const { return batches_; }
  std::int64_t targets() const { return targets_of_step_; }

 private:
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<data::Batch> batches_;
  std::int64_t targets_of_step_;
};

/// Settings that are not part of the shape.
struct StepSettings {
  Layout layout = {};
  parallel::WeightStorage weights = {};
  bool saves_beside = false;      ///< memory for checkpoints that are written while training goes on
  std::int64_t traced_steps = 0;  ///< memory for the spans of so many steps
};

class StepTraining {
 public:
  /// Collective; the arguments outlive this. The layout fits `world`, and the samples divide by its replicas and their
  /// micro-batches.
  StepTraining(const StepShape& shape, Runtime& runtime, ops::Ops& ops, comm::Communicator& world, const StepSettings& settings);
  /// Trains any model. `shape` says the samples, positions and vocabulary of `config`.
  StepTraining(const train::EngineConfig& config, const StepShape& shape, Runtime& runtime, ops::Ops& ops,
               comm::Communicator& world);
  train::StepResult step();
  train::Engine& engine() { return engine_; }
  const train::Engine& engine() const { return engine_; }
  /// Seconds of a step, until its weights are updated. `result` gets what the step tells.
  double timed_step(train::StepResult& result);
  std::int64_t activation_bytes() const { return engine_.ledger().total(MemoryKind::activations); }

 private:
  Stream& stream_;
  train::Engine engine_;
  FixedBatches batches_;
  std::int64_t done_ = 0;
};

/// What is wrong with a layout for the shape's model and samples, and for `ranks` ranks.
std::vector<Problem> check(const StepShape& shape, const Layout& layout, int ranks);

}  // namespace lockstep::lab
