#include "train/server/worker_side.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/timer.h"
#include "parallel/global_norm.h"
#include "parallel/server/pushed_gradients.h"
#include "parallel/zero/resident_state.h"
#include "train/replicas.h"
#include "train/server/server_rank_memory.h"

namespace lockstep::train {
namespace {

using parallel::Answer;
using parallel::Figures;
using parallel::ResidentState;
using parallel::StateRange;

/// The part that workers of all modes share: the exchange with the servers.
class WorkerUpdater : public Updater, private RunControl {
 public:
  WorkerUpdater(const UpdaterParts& parts, comm::Communicator& world)
      : parts_(parts),
        group_(parts.groups.all()),
        self_(comm::make_self()),
        worker_(world, key_ranges(parts.config, group_.size())) {}

  RunControl& control() override { return *this; }

 protected:
  int remote_stop_cause() const override { return static_cast<int>(answer_.stop_cause); }
  void leave() override { worker_.leave(); }
  bool lead() const { return group_.rank() == 0; }
  /// The weights that servers hold and send, one flat tensor for each unit.
  std::vector<Tensor> weights() {
    std::vector<Tensor> all(state().units().size());  // a unit without elements has no range
    state().for_each({.changes = true},
                     [&](const StateRange& range) { all[static_cast<std::size_t>(range.unit.value)] = range.master; });
    return all;
  }
  /// Ends a push and waits for the new weights. Returns the seconds of waiting.
  double finish_push(const Figures& figures) {
    const double start = now_seconds();
    answer_ = worker_.finish_push(figures, weights());
    parallel::publish(state(), parts_.ops.elementwise());
    return now_seconds() - start;
  }

  UpdaterParts parts_;
  comm::Communicator& group_;                 ///< all workers
  std::unique_ptr<comm::Communicator> self_;  ///< a group of this rank alone
  parallel::Worker worker_;
  Answer answer_;
};

/// The state of workers whose servers hold the optimizer: rank 0 has memory for its slots, for checkpoints.
class StateOnServers final : public ResidentState {
 public:
  StateOnServers(const UpdaterParts& parts, parallel::GradientStore& gradients, parallel::Worker& worker, RunControl& control)
      : ResidentState(parts.parameters, gradients, parts.memory.slots, parts.groups.all(), SlotsOn::rank0),
        worker_(worker),
        control_(control) {}

  void distribute(std::int64_t step) override {
    ResidentState::distribute(step);
    if (group().rank() == 0) worker_.load(step, updates(), units_held());
    group().host().barrier();  // no worker pushes to a server that has no weights yet
  }
  void collect() override {
    control_.settle();
    std::int64_t made = 0;
    if (group().rank() == 0) made = worker_.fetch_slots(units_held());
    group().host().all_reduce(view(std::span(&made, 1), Shape{1}), comm::Reduction::max).wait();
    set_updates(made);
  }

 private:
  std::vector<parallel::Worker::UnitState> units_held() {
    std::vector<parallel::Worker::UnitState> all(units().size());  // a unit without elements has no range
    for_each({.slots = true},
             [&](const StateRange& range) { all[static_cast<std::size_t>(range.unit.value)] = {range.master, range.slots}; });
    return all;
  }
  parallel::Worker& worker_;
  RunControl& control_;
};

/// Gradients are pushed while backward goes on; the servers hold the optimizer.
class GradientWorker : public WorkerUpdater {
 public:
  GradientWorker(const UpdaterParts& parts, comm::Communicator& world, bool tied_parts_apart)
      : WorkerUpdater(parts, world),
        own_(parts.parameters.units(), arch::unit_map(parts.config.model), parts.config.plan.microbatches, parts.memory.gradients,
             {*self_}, parts.ops, parts.config.gradients),
        gradients_(own_, worker_, {.overlap = parts.config.gradients.overlap, .tied_parts_apart = tied_parts_apart}),
        state_(parts, gradients_, worker_, control()) {}

  parallel::GradientStore& gradients() override { return gradients_; }
  parallel::TrainingState& state() override { return state_; }

  std::int64_t begin(std::int64_t step, std::int64_t targets) override {
    worker_.begin_push(step);
    gradients_.begin(parts_.config.plan.microbatches);
    return targets;
  }

 protected:
  double push(const Figures& figures) {
    const double seconds = finish_push(figures);
    state_.set_updates(static_cast<std::int64_t>(answer_.made));
    return seconds;
  }

  parallel::ZeroGradients own_;
  parallel::PushedGradients gradients_;
  StateOnServers state_;
};

/// All workers' gradients make one step, as in data parallelism.
class SynchronousWorker final : public GradientWorker {
 public:
  SynchronousWorker(const UpdaterParts& parts, comm::Communicator& world) : GradientWorker(parts, world, true) {}

  std::int64_t begin(std::int64_t step, std::int64_t targets) override {
    targets_ = GradientWorker::begin(step, targets);
    group_.host().all_reduce(view(std::span(&targets_, 1), Shape{1}), comm::Reduction::sum).wait();
    return targets_;
  }
  void finish(const Passed& passed, const ops::WrittenScalars& /*scalars*/, StepResult& result) override {
    gradients_.finish();
    result.exposed_seconds = push({.learning_rate = passed.learning_rate, .finite = targets_ > 0 ? 1.0 : 0.0});
    result.loss = passed.loss_sum;
    group_.host().all_reduce(view(std::span(&result.loss, 1), Shape{1}), comm::Reduction::sum).wait();
    result.loss /= static_cast<double>(std::max<std::int64_t>(targets_, 1));
    result.gradient_norm = answer_.norm;
    result.finite = std::isfinite(answer_.norm);
  }

 private:
  std::int64_t targets_ = 0;
};

/// Every worker's gradient is a step of its own.
class AsynchronousWorker final : public GradientWorker {
 public:
  AsynchronousWorker(const UpdaterParts& parts, comm::Communicator& world)
      : GradientWorker(parts, world, false),
        own_state_(parts.parameters, own_, no_slots_, *self_),
        norm_(own_state_, parts.memory.norm, *self_) {}

  std::int64_t begin(std::int64_t step, std::int64_t targets) override { return targets_ = GradientWorker::begin(step, targets); }
  void finish(const Passed& passed, const ops::WrittenScalars& /*scalars*/, StepResult& result) override {
    gradients_.finish();
    result.gradient_norm = norm_(parts_.ops);
    result.finite = std::isfinite(result.gradient_norm);
    result.exposed_seconds = push({.learning_rate = passed.learning_rate,
                                   .clip_factor = clip_factor(result.gradient_norm, parts_.config.grad_clip),
                                   .finite = result.finite && targets_ > 0 ? 1.0 : 0.0,
                                   .loss_sum = passed.loss_sum,
                                   .targets = static_cast<double>(targets_),
                                   .wants_halt = wanted_ ? 1.0 : 0.0});
    result.loss = answer_.loss;
    result.staleness = Staleness{.updates = static_cast<std::int64_t>(answer_.updates),
                                 .mean = answer_.staleness_sum / std::max(answer_.updates, 1.0),
                                 .greatest = static_cast<std::int64_t>(answer_.staleness_max)};
  }

 private:
  void settle() override {
    group_.host().barrier();
    worker_.pull(weights());
    parallel::publish(state(), parts_.ops.elementwise());
    group_.host().barrier();
  }
  bool is_sync_point(std::int64_t step, bool wanted) override {
    const bool now = static_cast<double>(step) == answer_.meet_at;
    wanted_ = wanted && !now;
    return now;
  }

  parallel::SlotMemory no_slots_;
  ResidentState own_state_;  ///< of this worker alone: its own gradient's norm
  parallel::GlobalNorm norm_;
  std::int64_t targets_ = 0;
  bool wanted_ = false;
};

void copy(std::span<const Tensor> to, std::span<const Tensor> from) {
  for (std::size_t i = 0; i < to.size(); ++i) std::memcpy(to[i].data, from[i].data, from[i].bytes());
}

/// The state of workers that each have an optimizer of their own. A checkpoint has the mean of their slots and of their numbers
/// of updates. Rank 0 keeps memory for the mean of the slots.
class AveragedState final : public ResidentState {
 public:
  AveragedState(const UpdaterParts& parts, parallel::GradientStore& gradients, parallel::TrainingState& own)
      : ResidentState(parts.parameters, gradients, parts.memory.saved_slots, parts.groups.all(), SlotsOn::rank0), own_(own) {}

  void distribute(std::int64_t step) override {
    ResidentState::distribute(step);
    own_.set_updates(updates());
    std::vector<Tensor> slots;
    own_.for_each({.slots = true, .changes = true}, [&](const StateRange& range) {
      if (has_slots()) copy(range.slots, slots_of(range.unit));
      slots.insert(slots.end(), range.slots.begin(), range.slots.end());
    });
    parallel::broadcast_checked(group(), slots);
  }
  void collect() override {
    std::int64_t made = own_.updates();
    group().host().all_reduce(view(std::span(&made, 1), Shape{1}), comm::Reduction::sum).wait();
    set_updates(div_up(made, std::int64_t{group().size()}));  // at least one where any was made
    own_.for_each({.slots = true}, [&](const StateRange& range) {
      if (has_slots()) copy(slots_of(range.unit), range.slots);
      for (const Tensor& slot : has_slots() ? slots_of(range.unit) : range.slots) {
        group().reduce(slot, comm::Reduction::mean, 0).wait();
      }
    });
  }

 private:
  parallel::TrainingState& own_;
};

/// Each worker is a run of its own for one step; then the servers average the weights.
class AveragingWorker final : public WorkerUpdater {
 public:
  AveragingWorker(const UpdaterParts& parts, comm::Communicator& world)
      : WorkerUpdater(parts, world), own_(parts, *self_), state_(parts, own_.gradients(), own_.state()) {}

  parallel::GradientStore& gradients() override { return own_.gradients(); }
  parallel::TrainingState& state() override { return state_; }
  std::int64_t begin(std::int64_t step, std::int64_t targets) override {
    targets_ = static_cast<double>(targets);
    step_ = step;
    return own_.begin(step, targets);
  }
  void finish(const Passed& passed, const ops::WrittenScalars& scalars, StepResult& result) override {
    const std::int64_t before = own_.state().updates();
    own_.finish(passed, scalars, result);
    const bool made = own_.state().updates() > before;
    const std::vector<Tensor> all = weights();
    worker_.begin_push(step_);
    for (const UnitIndex unit : worker_.ranges().order()) worker_.push(unit, all[static_cast<std::size_t>(unit.value)]);
    result.exposed_seconds = finish_push({.learning_rate = passed.learning_rate, .finite = made ? 1.0 : 0.0});
    std::array<double, 2> sums{passed.loss_sum, targets_};
    group_.host().all_reduce(view(std::span<double>(sums), Shape{2}), comm::Reduction::sum).wait();
    result.loss = sums[0] / std::max(sums[1], 1.0);
  }

 private:
  Replicas own_;
  AveragedState state_;
  double targets_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace

UpdaterNeeds worker_needs(ServerMode mode, bool lead) {
  const bool averages = mode == ServerMode::weights;
  return {.norm_ranks = mode == ServerMode::gradients ? 0 : 1, .slots = averages || lead, .saved_slots = averages && lead};
}

std::unique_ptr<Updater> make_worker_updater(const UpdaterParts& parts, comm::Communicator& world) {
  ensure(parts.config.servers.has_value(), "there are workers where there are servers");
  switch (parts.config.servers->mode) {
    case ServerMode::gradients:
      return std::make_unique<SynchronousWorker>(parts, world);
    case ServerMode::weights:
      return std::make_unique<AveragingWorker>(parts, world);
    case ServerMode::async:
      return std::make_unique<AsynchronousWorker>(parts, world);
  }
  return nullptr;
}

}  // namespace lockstep::train
