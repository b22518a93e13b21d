#pragma once

// One rank of an observed training: an engine as `train` has it. An observer is called where there is something to see.

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "data/batch.h"
#include "device/device.h"
#include "lab/layouts.h"
#include "lab/verify/verify_model.h"
#include "parallel/stores.h"
#include "train/engine.h"

namespace lockstep::lab {

/// Observes a rank's state in host memory. Where it may change state, all ranks that hold the state change it alike.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  /// The weights as the seed gives them; may change weights and slots.
  virtual void drawn(parallel::TrainingState& state) = 0;
  /// The state that the first step begins with.
  virtual void started(parallel::TrainingState& state) = 0;
  /// A step begins. Returns whether weights and slots were changed.
  virtual bool before(int step, parallel::TrainingState& state) = 0;
  /// The values that the model reads, valid during this call: `values` are elements of `part`.
  virtual void reads(const layout::Unit& unit, const layout::Part& part, const Tensor& values) = 0;
  /// The step's gradient, loss and norm are complete, and the update has yet to come; may change gradient and norm. With
  /// parameter servers `state` is null: these have the gradient, and have already updated.
  virtual void reduced(int step, parallel::TrainingState* state, train::StepResult& result) = 0;
  virtual void updated(int step, parallel::TrainingState& state) = 0;
  /// After the last step: the sum of the token losses of a batch.
  virtual void evaluated(double loss) = 0;
};

/// The parts that a rank is made of; tests put test doubles in place of the program's.
struct TrialParts {
  std::function<std::unique_ptr<comm::Communicator>(comm::Communicator&)> world = {};  ///< around the rank's own; empty: none
  parallel::StoreFactory store = parallel::make_parameter_store;
  std::function<std::unique_ptr<ops::Ops>(std::unique_ptr<ops::Ops>, int rank)> ops = {};  ///< around its kernels
  std::function<void(int rank, std::span<data::Batch>)> batches = {};                      ///< changes what a rank reads
};

/// One training.
struct Trial {
  const VerifyModel& model;
  const Layout& layout;
  int steps = 3;
  const TrialParts& parts;
  DeviceKind device = DeviceKind::cpu;  ///< GPUs are dealt out to the ranks in turn
};

using MakeObserver = std::function<std::unique_ptr<RankObserver>(int rank)>;

/// Trains on ranks that are threads of this process, one thread each. Throws what a rank throws.
void run(const Trial& trial, const MakeObserver& make_observer);

/// The engine's settings for a training of `model` in this layout.
train::EngineConfig config_of(const VerifyModel& model, const Layout& layout);

}  // namespace lockstep::lab
