#pragma once

// How the gradients of a step become new weights on every rank: by all of them together (train/replicas) or by parameter servers
// (train/served). Chosen once, when the engine is made.

#include <cstdint>
#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"
#include "tensor/arena.h"
#include "train/engine_config.h"
#include "train/optimizer.h"

namespace lockstep::train {

/// What an updater works with; all outlive it.
struct UpdaterParts {
  const EngineConfig& config;
  ops::Ops& ops;
  parallel::ParameterStore& parameters;
  comm::Communicator& world;  ///< the ranks that train
};

class Updater {
 public:
  struct Arenas {
    Arena &gradients, &optimizer, &activations, &workspace;
  };
  /// A step whose backward pass is done.
  struct Passed {
    std::int64_t step = 0;  ///< counted from 0
    double learning_rate = 0;
    double loss_sum = 0;  ///< of this rank's tokens
    Tensor tokens;        ///< [n] i32: what the step read
  };

  virtual ~Updater() = default;
  virtual void declare(const Arenas& arenas) = 0;
  /// Where backward leaves the gradients, and where a tied matrix's rows accumulate (null: none is tied).
  virtual parallel::GradientStore& gradients() = 0;
  virtual const Tensor* embedded_rows() const = 0;

  /// A step begins, on `targets` of this rank; returns the number that its losses are divided by.
  virtual std::int64_t begin(std::int64_t step, std::int64_t targets) = 0;
  /// Reduction, norm, clipping and AdamW; fills in what it knows of `result`. `scalars` is free to use, but for its loss scale.
  virtual void finish(const Passed& passed, const ops::StepScalars& scalars, StepResult& result) = 0;

  /// As a checkpoint has them: to be read on rank 0 after gather_state(), or written there before publish_state(). Empty where
  /// this rank keeps none.
  virtual Optimizer::Moments moments(UnitIndex unit) = 0;
  /// Rank 0's weights and moments become those of the run, which has done `step` steps. Collective.
  virtual void publish_state(std::int64_t step) = 0;
  /// All ranks wait for each other and hold the newest weights. Collective.
  virtual void settle() {}
  /// Rank 0 has the newest weights and moments, and nobody goes on before. Collective.
  virtual void gather_state() {}
  /// Whether all ranks meet after `step` steps, so that they may decide together. `wanted`: this rank would like to, soon.
  virtual bool meets(std::int64_t /*step*/, bool /*wanted*/) { return true; }
  /// A cause to stop that another kind of rank has found; 0: none.
  virtual int alarm() const { return 0; }
  /// This rank takes no further step.
  virtual void leave() {}
};

using UpdaterFactory = std::function<std::unique_ptr<Updater>(const UpdaterParts&)>;

}  // namespace lockstep::train
