#pragma once

// One rank of a training that is looked at: an engine as `train` has it, and an observer that is called where there is something
// to see.

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

/// Sees what a rank has, in host memory. Where it may change state, all ranks that hold it change it alike.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  /// Weights as the seed gives them; may change weights and slots.
  virtual void drawn(parallel::TrainingState& state) = 0;
  /// What the first step begins with.
  virtual void started(parallel::TrainingState& state) = 0;
  /// A step begins; whether weights and slots were changed.
  virtual bool before(int step, parallel::TrainingState& state) = 0;
  /// What the model reads, for as long as this call: `values` are elements of `part`.
  virtual void reads(const layout::Unit& unit, const layout::Part& part, const Tensor& values) = 0;
  /// The step's gradient is complete, its loss and norm are known, and the update has yet to come; may change the gradient and
  /// the norm. With parameter servers, which have the gradient and have updated, `state` is null.
  virtual void reduced(int step, parallel::TrainingState* state, train::StepResult& result) = 0;
  virtual void updated(int step, parallel::TrainingState& state) = 0;
  /// After the last step: the sum of the token losses of a batch.
  virtual void evaluated(double loss) = 0;
};

/// What a rank is made of; tests put doubles in place of what the program has.
struct TrialParts {
  std::function<std::unique_ptr<comm::Communicator>(comm::Communicator&)> world = {};  ///< around the rank's own; empty: that
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

/// Trains on ranks that are threads of this process, one thread each. What fails on a rank is thrown.
void run(const Trial& trial, const MakeObserver& make_observer);

/// The engine's settings for a training of `model` laid out so.
train::EngineConfig config_of(const VerifyModel& model, const Layout& layout);

}  // namespace lockstep::lab
