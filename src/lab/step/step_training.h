#pragma once

// A model of one shape that is trained on one batch, again and again: what step benches time.

#include <cstdint>
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

/// Random tokens, each one's target the next: a rank's part of the shape's samples.
class FixedBatch {
 public:
  FixedBatch(const StepShape& shape, int rank, int ranks);
  FixedBatch(const FixedBatch&) = delete;
  FixedBatch& operator=(const FixedBatch&) = delete;
  const data::Batch& batch() const { return batch_; }

 private:
  std::vector<std::int32_t> tokens_, targets_;
  data::Batch batch_;
};

/// What is not the shape's.
struct StepSettings {
  parallel::WeightStorage weights = {};
  parallel::GradientOptions gradients = {};
  layout::Recompute recompute = {};
  int zero = 0;  ///< as memory.zero
};

class StepTraining {
 public:
  /// Collective; the arguments outlive it. The samples divide by the ranks.
  StepTraining(const StepShape& shape, Runtime& runtime, ops::Ops& ops, comm::Communicator& world,
               const StepSettings& settings = {});
  train::StepResult step();
  /// Seconds of the step that `result` tells of.
  double timed_step(train::StepResult& result);
  std::int64_t activation_bytes() const { return engine_.ledger().total(MemoryKind::activations); }

 private:
  FixedBatch batch_;
  parallel::Groups groups_;
  train::Engine engine_;
  std::int64_t done_ = 0;
};

/// A problem for `--ranks` that the samples of the shape do not divide by.
void check_samples(const StepShape& shape, int ranks, std::vector<Problem>& problems);

/// Of at least one value.
double median_of(std::vector<double> values);

}  // namespace lockstep::lab
