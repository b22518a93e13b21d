#pragma once

// A tiny model trained on thread ranks whose state is cut as a plan says, each of them one rank or a pipeline, and what they are
// left with, put together: equal in every bit however it was cut.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "comm/thread/thread_world.h"
#include "layout/pipeline/schedules.h"
#include "support/tiny_engine.h"
#include "train/engine.h"
#include "train/replicas.h"

namespace lockstep::support {

struct ZeroRun {
  int ranks = 2;  ///< data-parallel
  int level = 0;  ///< memory.zero
  layout::CutOver over = layout::CutOver::all;
  arch::ModelConfig model = tiny_model();
  parallel::WeightStorage weights = {};
  train::OptimizerSettings optimizer = {};
  layout::ReduceEvery reduce = layout::ReduceEvery::step;
  int microbatches = 2;
  std::int64_t samples = 1;  ///< of a micro-batch
  float grad_clip = 1;
  parallel::GradientOptions gradients = {};
  int prefetch = 1;
  bool reshard_after_forward = true;
  layout::LeaseSize leases = layout::LeaseSize::block;
  layout::Tiles tiles = {};
  layout::Recompute recompute = {};
  layout::Tier optimizer_tier = layout::Tier::device, parameters_tier = layout::Tier::device,
               activations_tier = layout::Tier::device;
  parallel::OffloadOptions offload = {};
  int steps = 3;
  int stages = 1;  ///< parallel.pp
  std::string schedule = "1f1b";
  std::optional<layout::ActionTable> table = {};
  std::vector<std::int64_t> split = {};
  bool saves_beside = false;
  layout::ParallelPlan plan() const {
    layout::ParallelPlan plan{.dp = ranks,
                              .pp = stages,
                              .chunks = usual_chunks(*layout::find_schedule(schedule), stages),
                              .schedule = schedule,
                              .table = table,
                              .split = split,
                              .microbatches = microbatches,
                              .reduce = reduce,
                              .ranks_per_host = ranks * stages};
    if (over == layout::CutOver::host) plan.ranks_per_host = 2;
    layout::set_zero_level(plan, level, over);
    plan.prefetch = prefetch;
    plan.reshard_after_forward = reshard_after_forward;
    plan.leases = leases;
    plan.tiles = tiles;
    plan.recompute = recompute;
    plan.optimizer.tier = optimizer_tier;
    plan.parameters.tier = parameters_tier;
    plan.activations = activations_tier;
    return plan;
  }
  train::EngineConfig config() const {
    train::EngineConfig config = tiny_config(model);
    config.plan = plan();
    config.weights = weights;
    config.optimizer = optimizer;
    config.samples = samples;
    config.grad_clip = grad_clip;
    config.gradients = gradients;
    config.offload = offload;
    config.saves_beside = saves_beside;
    return config;
  }
};

/// Bytes of one kind of state, unit by unit.
using UnitBytes = std::vector<std::vector<std::byte>>;

struct ZeroResult {
  std::vector<double> losses, norms;
  double evaluated = 0;  ///< with the last weights, as leases give them
  UnitBytes masters, gradients;
  std::vector<UnitBytes> slots;
};

inline const train::UpdaterFactory replicas = [](const train::UpdaterParts& parts) {
  return std::make_unique<train::Replicas>(parts);
};

/// Micro-batches of a step: one rank's of those that all ranks share.
struct ZeroBatches {
  std::unique_ptr<Batches> all;
  std::span<const data::Batch> mine;
  std::int64_t targets = 0;  ///< of these
};

/// What one rank of a run computes with.
class ZeroRank {
 public:
  ZeroRank(const ZeroRun& run, comm::Communicator& world, const parallel::StoreFactory& stores = parallel::make_parameter_store)
      : config_(run.config()),
        runtime_(open_runtime({}, {.threads = 1})),
        stream_(runtime_->make_stream()),
        ops_(ops::make_ops(*runtime_, *stream_)) {
    world.attach(*stream_, runtime_->team());
    engine_ = std::make_unique<train::Engine>(config_, *runtime_, *ops_, world, replicas, stores);
    engine_->commit();
  }
  train::Engine& engine() { return *engine_; }
  Team& team() { return runtime_->team(); }
  Runtime& runtime() { return *runtime_; }
  int rank() const { return engine_->groups().all().rank(); }

  ZeroBatches batches(int number) const {
    const int each = config_.plan.microbatches, all = each * config_.plan.dp;
    ZeroBatches made;
    made.all = std::make_unique<Batches>(all, config_.samples, config_.positions, config_.model.vocabulary,
                                         static_cast<std::uint64_t>(number));
    std::vector<std::int32_t>& targets = made.all->target_values();
    for (std::size_t i = 0; i < targets.size() / 3; ++i) targets[i] = -1;
    made.mine =
        made.all->all().subspan(static_cast<std::size_t>(each * engine_->groups().at().dp), static_cast<std::size_t>(each));
    for (const data::Batch& batch : made.mine) {
      made.targets +=
          std::ranges::count_if(elements<std::int32_t>(batch.targets), [](std::int32_t target) { return target >= 0; });
    }
    return made;
  }
  train::StepResult step(const ZeroBatches& batches, int number) {
    return engine_->step(batches.mine, batches.targets, number, 1e-2);
  }
  train::StepResult step(int number) { return step(batches(number), number); }
  double evaluate() {
    const Batches batches(1, config_.samples, config_.positions, config_.model.vocabulary, 99);
    double loss = engine_->evaluate(batches.all().front());
    engine_->groups().pipeline().all_reduce(view(std::span(&loss, 1), Shape{1}), comm::Reduction::sum).wait();
    return loss;
  }
  /// Puts what this rank answers for into `result`, whose buffers all ranks share.
  void collect(ZeroResult& result, bool with_gradients = true) {
    parallel::TrainingState& state = engine_->state();
    {
      static std::mutex making;
      const std::lock_guard lock(making);
      make_room(result);
    }
    state.for_each({.gradients = with_gradients, .slots = true}, [&](const parallel::StateRange& range) {
      const auto put = [&](UnitBytes& to, const Tensor& values, const layout::Range& part) {
        if (part.count == 0 || !state.units()[static_cast<std::size_t>(range.unit.value)].owned) return;
        const Tensor own = values.flat(part.first - range.range.first, part.count);
        std::memcpy(&to[static_cast<std::size_t>(range.unit.value)][static_cast<std::size_t>(part.first) * size_of(own.dtype)],
                    own.data, own.bytes());
      };
      put(result.masters, range.master, range.own);
      if (with_gradients) put(result.gradients, range.gradient, range.own);
      for (std::size_t s = 0; s < range.slots.size(); ++s) put(result.slots[s], range.slots[s], range.own_slots);
    });
  }

 private:
  void make_room(ZeroResult& result) {
    const parallel::TrainingState& state = engine_->state();
    if (!result.masters.empty()) return;
    result.slots.resize(state.slots().size());
    for (const layout::Unit& unit : arch::units_of(arch::unit_table(config_.model))) {
      const auto bytes = [&](DType type) {
        return std::vector<std::byte>(static_cast<std::size_t>(unit.elements) * size_of(type));
      };
      result.masters.push_back(bytes(state.type()));
      result.gradients.push_back(bytes(DType::f32));
      for (UnitBytes& slot : result.slots) slot.push_back(bytes(state.type()));
    }
  }

  train::EngineConfig config_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ops::Ops> ops_;
  std::unique_ptr<train::Engine> engine_;
};

/// Runs `body` on the ranks of a run.
inline void on_zero_ranks(const ZeroRun& run, const std::function<void(ZeroRank&)>& body,
                          const parallel::StoreFactory& stores = parallel::make_parameter_store) {
  comm::run_ranks(run.ranks * run.stages, {.timeout = 60}, [&](comm::Communicator& world) {
    ZeroRank rank(run, world, stores);
    body(rank);
  });
}

/// Trains on one rank of a run.
inline void train(ZeroRank& rank, int first, int end, ZeroResult& result) {
  for (int step = first; step < end; ++step) {
    const train::StepResult done = rank.step(step);
    if (rank.rank() != 0) continue;
    result.losses.push_back(done.loss);
    result.norms.push_back(done.gradient_norm);
  }
}

inline ZeroResult learn(const ZeroRun& run) {
  ZeroResult result;
  on_zero_ranks(run, [&](ZeroRank& rank) {
    rank.engine().initialise();
    train(rank, 0, run.steps, result);
    rank.collect(result);
    const double evaluated = rank.evaluate();
    if (rank.rank() == 0) result.evaluated = evaluated;
  });
  return result;
}

inline void expect_equal(const ZeroResult& a, const ZeroResult& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.evaluated, b.evaluated);
  EXPECT_TRUE(a.gradients == b.gradients);
  EXPECT_TRUE(a.masters == b.masters);
  EXPECT_TRUE(a.slots == b.slots);
}

}  // namespace lockstep::support
