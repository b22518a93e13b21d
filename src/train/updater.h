#pragma once

// How the gradients of a step become new weights on every rank: by all ranks together (train/replicas) or by parameter servers
// (train/server). An updater is chosen once, when the engine is made.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/groups.h"
#include "parallel/parameter_store.h"
#include "parallel/training_state.h"
#include "tensor/host_pieces.h"
#include "train/engine_config.h"
#include "train/memory/updater_memory.h"

namespace lockstep::train {

/// The objects that an updater works with; all outlive it.
struct UpdaterParts {
  const EngineConfig& config;
  ops::Ops& ops;
  parallel::ParameterStore& parameters;
  const parallel::Groups& groups;  ///< of the ranks that train
  const UpdaterMemory& memory;
  const HostPieces& pieces;  ///< copy values between device and host
};

/// How the ranks of a run come together between steps. This class is for ranks that take every step together. Workers of
/// parameter servers that do not wait for each other have another one (train/server).
class RunControl {
 public:
  virtual ~RunControl() = default;
  /// All ranks wait for each other and hold the newest weights. Collective.
  virtual void settle() {}
  /// Whether all ranks meet after `step` steps, so that they may decide together. `wanted`: this rank asks for a meeting soon.
  virtual bool is_sync_point(std::int64_t /*step*/, bool /*wanted*/) { return true; }
  /// A cause to stop (train::StopCause) that a rank of another kind has found; 0: none.
  virtual int remote_stop_cause() const { return 0; }
  /// This rank takes no further step.
  virtual void leave() {}
};

class Updater {
 public:
  /// A step whose backward pass is done.
  struct Passed {
    std::int64_t step = 0;  ///< counted from 0
    double learning_rate = 0;
    double loss_sum = 0;  ///< of this rank's tokens
  };

  virtual ~Updater() = default;
  /// The store that the backward pass adds gradients to.
  virtual parallel::GradientStore& gradients() = 0;
  /// The state of this run that a checkpoint has.
  virtual parallel::TrainingState& state() = 0;
  /// How the ranks come together between steps.
  virtual RunControl& control() = 0;

  /// A step begins, on `targets` of this rank; returns the number that its losses are divided by.
  virtual std::int64_t begin(std::int64_t step, std::int64_t targets) = 0;
  /// Reduction, norm, clipping and the update; fills in its fields of `result`. It may write `scalars`, except for their loss
  /// scale.
  virtual void finish(const Passed& passed, const ops::WrittenScalars& scalars, StepResult& result) = 0;
};

using UpdaterFactory = std::function<std::unique_ptr<Updater>(const UpdaterParts&)>;

}  // namespace lockstep::train
