#pragma once

// A model of one shape that is trained on one batch, again and again: what step benches time.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "data/batch.h"
#include "device/runtime.h"
#include "lab/step/step_shapes.h"
#include "ops/ops.h"
#include "parallel/parameter_store.h"
#include "parallel/zero/gradients.h"
#include "train/engine.h"

namespace lockstep::lab {

/// Ranks that divide the layers, and when each works.
struct StepPipeline {
  int stages = 1;  ///< ranks of a pipeline
  std::string schedule = "1f1b";
  int microbatches = 1;  ///< that the samples of a replica are cut into
};

/// Random tokens, each one's target the next: part `part` of `parts` of the shape's samples, in micro-batches.
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

/// What is not the shape's.
struct StepSettings {
  parallel::WeightStorage weights = {};
  parallel::GradientOptions gradients = {};
  layout::Recompute recompute = {};
  int zero = 0;  ///< as memory.zero
  StepPipeline pipeline = {};
};

/// How `ranks` ranks train the shape.
layout::ParallelPlan plan_of(const StepShape& shape, int ranks, const StepSettings& settings);

class StepTraining {
 public:
  /// Collective; the arguments outlive it. The samples divide by the replicas and their micro-batches.
  StepTraining(const StepShape& shape, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
               const StepSettings& settings = {});
  train::StepResult step();
  /// Seconds of the step that `result` tells of.
  double timed_step(train::StepResult& result);
  std::int64_t activation_bytes() const { return engine_.ledger().total(MemoryKind::activations); }

 private:
  parallel::Groups groups_;
  FixedBatches batches_;
  train::Engine engine_;
  std::int64_t done_ = 0;
};

/// Problems for `--ranks`, `--pp`, `--schedule` and `--gas` that do not fit each other, or that the samples of the shape do not
/// divide by.
void check_samples(const StepShape& shape, int ranks, std::vector<Problem>& problems, const StepPipeline& pipeline = {});

/// Of at least one value.
double median_of(std::vector<double> values);

}  // namespace lockstep::lab
