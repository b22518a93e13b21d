#include "train/served.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/timer.h"
#include "parallel/global_norm.h"
#include "parallel/server/pushed_gradients.h"
#include "train/replicas.h"

namespace lockstep::train {
namespace {

using parallel::Answer;
using parallel::Figures;

void copy(const Tensor& to, const Tensor& from) { std::memcpy(to.data, from.data, from.bytes()); }

/// What all modes share: the way to the servers, and on rank 0 the moments of checkpoints.
class Served : public Updater {
 public:
  Served(const UpdaterParts& parts, comm::Communicator& world, int servers)
      : parts_(parts),
        self_(comm::make_self()),
        worker_(world, key_ranges(parts.config, parts.parameters.units(), parts.world.size(), servers)),
        saved_(parts.world.rank() == 0 ? parts.parameters.units().size() : 0) {}

  void declare(const Arenas& arenas) override {
    for (std::size_t u = 0; u < saved_.size(); ++u) {
      const layout::Unit& unit = parts_.parameters.units()[u];
      const DType type = parts_.config.weights.owned();
      arenas.optimizer.declare(saved_[u].exp_avg, unit.name + ".exp_avg", Shape{unit.elements}, type);
      arenas.optimizer.declare(saved_[u].exp_avg_sq, unit.name + ".exp_avg_sq", Shape{unit.elements}, type);
    }
  }
  Optimizer::Moments moments(UnitIndex unit) override {
    return saved_.empty() ? Optimizer::Moments{} : saved_[static_cast<std::size_t>(unit.value)];
  }
  int alarm() const override { return static_cast<int>(answer_.alarm); }
  void leave() override { worker_.leave(); }

 protected:
  bool lead() const { return parts_.world.rank() == 0; }
  /// What servers hold and send.
  std::vector<Tensor> weights() const {
    std::vector<Tensor> all;
    for (std::size_t u = 0; u < parts_.parameters.units().size(); ++u) {
      all.push_back(parts_.parameters.shard(UnitIndex{static_cast<int>(u)}).master);
    }
    return all;
  }
  /// With rank 0's moments.
  std::vector<parallel::Worker::UnitState> state() const {
    std::vector<parallel::Worker::UnitState> all;
    for (const Tensor& unit : weights()) {
      const Optimizer::Moments& moments = saved_[all.size()];
      all.push_back({unit, moments.exp_avg, moments.exp_avg_sq});
    }
    return all;
  }
  /// Ends a push and waits for the new weights; returns how long.
  double finish_push(const Figures& figures) {
    const double start = now_seconds();
    answer_ = worker_.finish_push(figures, weights());
    parallel::publish(parts_.parameters, parts_.ops.elementwise());
    return now_seconds() - start;
  }

  UpdaterParts parts_;
  std::unique_ptr<comm::Communicator> self_;  ///< a group of this rank alone
  parallel::Worker worker_;
  std::vector<Optimizer::Moments> saved_;
  Answer answer_;
};

/// Gradients are pushed while backward goes on; the servers hold the optimizer.
class ServedGradients : public Served {
 public:
  ServedGradients(const UpdaterParts& parts, comm::Communicator& world, int servers)
      : Served(parts, world, servers),
        own_(parts.parameters.units(), arch::backward_order(arch::unit_map(parts.config.model)), *self_, parts.ops.elementwise(),
             parts.config.gradients),
        gradients_(own_, worker_, parts.config.gradients.overlap),
        tied_rows_(make_tied_rows(parts.config, *self_)) {}

  void declare(const Arenas& arenas) override {
    Served::declare(arenas);
    own_.declare(arenas.gradients, parts_.config.microbatches);
    if (tied_rows_) tied_rows_->declare(arenas.gradients, arenas.activations, arenas.workspace);
  }
  parallel::GradientStore& gradients() override { return gradients_; }
  const Tensor* embedded_rows() const override { return tied_rows_ ? &tied_rows_->table() : nullptr; }

  std::int64_t begin(std::int64_t step, std::int64_t targets) override {
    worker_.begin_push(step);
    gradients_.begin(parts_.config.microbatches);
    return targets;
  }
  void publish_state(std::int64_t step) override {
    broadcast_checked(parts_.world, weight_tensors(parts_.parameters));
    if (lead()) worker_.load(step, state());
    parts_.world.barrier();  // nobody pushes to a server that has no weights yet
  }
  void gather_state() override {
    settle();
    if (lead()) worker_.fetch_moments(state());
    parts_.world.barrier();
  }

 protected:
  void push_tied() {
    const UnitIndex tied = worker_.ranges().tied();
    if (tied.value >= 0) worker_.push(tied, own_.shard(tied).gradient);
  }

  parallel::ZeroGradients own_;
  parallel::PushedGradients gradients_;
  std::optional<parallel::TiedRows> tied_rows_;
};

/// All workers' gradients make one step, as in data parallelism.
class ServedTogether final : public ServedGradients {
 public:
  using ServedGradients::ServedGradients;

  std::int64_t begin(std::int64_t step, std::int64_t targets) override {
    targets_ = ServedGradients::begin(step, targets);
    parts_.world.all_reduce(view(std::span(&targets_, 1), Shape{1}), comm::Reduction::sum).wait();
    return targets_;
  }
  void finish(const Passed& passed, const ops::StepScalars& /*scalars*/, StepResult& result) override {
    gradients_.finish();
    push_tied();
    if (tied_rows_) worker_.push_rows(tied_rows_->table());
    result.exposed_seconds = finish_push({.learning_rate = passed.learning_rate, .finite = targets_ > 0 ? 1.0 : 0.0});
    if (tied_rows_) parts_.ops.elementwise().zero(tied_rows_->table());
    result.loss = passed.loss_sum;
    parts_.world.all_reduce(view(std::span(&result.loss, 1), Shape{1}), comm::Reduction::sum).wait();
    result.loss /= static_cast<double>(std::max<std::int64_t>(targets_, 1));
    result.gradient_norm = answer_.norm;
    result.finite = std::isfinite(answer_.norm);
  }

 private:
  std::int64_t targets_ = 0;
};

/// Every worker's gradient is a step of its own.
class ServedApart final : public ServedGradients {
 public:
  ServedApart(const UpdaterParts& parts, comm::Communicator& world, int servers)
      : ServedGradients(parts, world, servers), norm_(parts.parameters.units(), *self_) {}

  std::int64_t begin(std::int64_t step, std::int64_t targets) override {
    return targets_ = ServedGradients::begin(step, targets);
  }
  void finish(const Passed& passed, const ops::StepScalars& /*scalars*/, StepResult& result) override {
    gradients_.finish();
    add_tied_rows(parts_.config, parts_.parameters.units(), tied_rows_, gradients_, passed.tokens, parts_.ops);
    push_tied();
    result.gradient_norm = norm_(parts_.ops.reduce(), gradients_);
    result.finite = std::isfinite(result.gradient_norm);
    const double loss = passed.loss_sum / static_cast<double>(std::max<std::int64_t>(targets_, 1));
    result.exposed_seconds = finish_push({.learning_rate = passed.learning_rate,
                                          .clip_factor = clip_factor(result.gradient_norm, parts_.config.grad_clip),
                                          .finite = result.finite && targets_ > 0 ? 1.0 : 0.0,
                                          .loss = loss,
                                          .wants_halt = wanted_ ? 1.0 : 0.0});
    result.loss = answer_.loss;
    result.staleness = Staleness{.updates = static_cast<std::int64_t>(answer_.updates),
                                 .mean = answer_.staleness_sum / std::max(answer_.updates, 1.0),
                                 .greatest = static_cast<std::int64_t>(answer_.staleness_max)};
  }
  void settle() override {
    parts_.world.barrier();
    worker_.pull(weights());
    parallel::publish(parts_.parameters, parts_.ops.elementwise());
    parts_.world.barrier();
  }
  bool meets(std::int64_t step, bool wanted) override {
    const bool now = static_cast<double>(step) == answer_.meet_at;
    wanted_ = wanted && !now;
    return now;
  }

 private:
  parallel::GlobalNorm norm_;
  std::int64_t targets_ = 0;
  bool wanted_ = false;
};

/// Each worker is a run of its own for one step; then the servers average the weights.
class ServedAverage final : public Served {
 public:
  ServedAverage(const UpdaterParts& parts, comm::Communicator& world, int servers)
      : Served(parts, world, servers), own_({parts.config, parts.ops, parts.parameters, *self_}) {}

  void declare(const Arenas& arenas) override {
    Served::declare(arenas);
    own_.declare(arenas);
  }
  parallel::GradientStore& gradients() override { return own_.gradients(); }
  const Tensor* embedded_rows() const override { return own_.embedded_rows(); }
  std::int64_t begin(std::int64_t step, std::int64_t targets) override {
    targets_ = static_cast<double>(targets);
    step_ = step;
    return own_.begin(step, targets);
  }
  void finish(const Passed& passed, const ops::StepScalars& scalars, StepResult& result) override {
    own_.finish(passed, scalars, result);
    const std::vector<Tensor> all = weights();
    worker_.begin_push(step_);
    for (const UnitIndex unit : worker_.ranges().order()) worker_.push(unit, all[static_cast<std::size_t>(unit.value)]);
    result.exposed_seconds = finish_push({.learning_rate = passed.learning_rate});
    std::array<double, 2> sums{passed.loss_sum, targets_};
    parts_.world.all_reduce(view(std::span<double>(sums), Shape{2}), comm::Reduction::sum).wait();
    result.loss = sums[0] / std::max(sums[1], 1.0);
  }
  void publish_state(std::int64_t /*step*/) override {
    std::vector<Tensor> all = weight_tensors(parts_.parameters);
    for (std::size_t u = 0; u < parts_.parameters.units().size(); ++u) {
      const Optimizer::Moments own = own_.moments(UnitIndex{static_cast<int>(u)});
      if (lead()) {
        copy(own.exp_avg, saved_[u].exp_avg);
        copy(own.exp_avg_sq, saved_[u].exp_avg_sq);
      }
      all.insert(all.end(), {own.exp_avg, own.exp_avg_sq});
    }
    broadcast_checked(parts_.world, all);
  }
  // Every worker has moments of its own: a checkpoint has their mean.
  void gather_state() override {
    for (std::size_t u = 0; u < parts_.parameters.units().size(); ++u) {
      const Optimizer::Moments own = own_.moments(UnitIndex{static_cast<int>(u)});
      if (lead()) {
        copy(saved_[u].exp_avg, own.exp_avg);
        copy(saved_[u].exp_avg_sq, own.exp_avg_sq);
      }
      const Optimizer::Moments& mean = lead() ? saved_[u] : own;
      parts_.world.reduce(mean.exp_avg, comm::Reduction::mean, 0).wait();
      parts_.world.reduce(mean.exp_avg_sq, comm::Reduction::mean, 0).wait();
    }
  }

 private:
  Replicas own_;
  double targets_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace

layout::KeyRanges key_ranges(const EngineConfig& config, const std::vector<layout::Unit>& units, int workers, int servers) {
  const arch::UnitMap map = arch::unit_map(config.model);
  return {units, arch::backward_order(map), map.tied, workers, servers};
}

std::unique_ptr<Updater> make_served(const UpdaterParts& parts, ServerMode mode, comm::Communicator& world, int servers) {
  switch (mode) {
    case ServerMode::gradients:
      return std::make_unique<ServedTogether>(parts, world, servers);
    case ServerMode::weights:
      return std::make_unique<ServedAverage>(parts, world, servers);
    case ServerMode::async:
      return std::make_unique<ServedApart>(parts, world, servers);
  }
  return nullptr;
}

}  // namespace lockstep::train
