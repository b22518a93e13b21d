#pragma once

// A tiny model trained on thread ranks laid out as a plan says, and what all of them are left with: whole tensors by name, so
// that layouts compare with each other and with one rank.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/held_unit.h"
#include "comm/thread/thread_world.h"
#include "support/tiny_engine.h"
#include "train/engine.h"

namespace lockstep::support {

struct LayoutRun {
  layout::ParallelPlan plan = {};
  arch::ModelConfig model = tiny_model();
  parallel::WeightStorage weights = {};
  train::OptimizerSettings optimizer = {.name = "sgd", .momentum = 0.9F};
  float grad_clip = 1;
  std::int64_t samples = 2;  ///< of a micro-batch
  int steps = 3;
  bool saves_beside = false;
  std::optional<std::int64_t> positions = {};  ///< none: as usual
  std::optional<std::int32_t> document_end = {};
  train::EngineConfig config() const {
    train::EngineConfig config = tiny_config(model);
    config.plan = plan;
    config.weights = weights;
    config.optimizer = optimizer;
    config.samples = samples;
    config.grad_clip = grad_clip;
    config.saves_beside = saves_beside;
    config.positions = positions.value_or(config.positions);
    config.document_end = document_end;
    return config;
  }
};

/// The same model and micro-batches on one rank.
inline LayoutRun alone(LayoutRun run) {
  layout::ParallelPlan plan{.microbatches = run.plan.microbatches * run.plan.dp};
  run.plan = plan;
  return run;
}

/// Values of whole tensors, in f32.
using Values = std::map<std::string, std::vector<float>>;

struct LayoutResult {
  std::vector<double> losses, norms;
  double evaluated = 0;  ///< with the last weights
  Values weights, gradients;
  std::vector<Values> slots;
};

class LayoutRank {
 public:
  LayoutRank(const LayoutRun& run, comm::Communicator& world)
      : config_(run.config()),
        runtime_(open_runtime({}, {.threads = 1})),
        stream_(runtime_->make_stream()),
        ops_(ops::make_ops(*runtime_, *stream_)) {
    world.attach(*stream_, runtime_->team());
    engine_ = std::make_unique<train::Engine>(config_, *runtime_, *ops_, world);
    engine_->commit();
  }
  train::Engine& engine() { return *engine_; }
  const parallel::Groups& groups() const { return engine_->groups(); }
  Runtime& runtime() { return *runtime_; }
  Team& team() { return runtime_->team(); }
  bool lead() const { return groups().lead(); }

  /// Step `number`, on micro-batches that are those of all layouts with as many samples. A third of the targets is masked.
  train::StepResult step(int number, double learning_rate = 1e-2) {
    const StepBatches batches(*this, number);
    return engine_->step(batches.mine(), batches.targets(), number, learning_rate);
  }
  /// Of that step's samples with the weights as they are, without dropout. Every replica has its own. Collective.
  double mean_loss(int number) {
    const StepBatches batches(*this, number);
    double sum = 0;
    for (const data::Batch& batch : batches.mine()) sum += engine_->evaluate(batch);
    return of_all_positions(sum) / static_cast<double>(batches.targets());
  }
  double evaluate() {
    const Batches batches(1, config_.samples, config_.positions, config_.model.vocabulary, 99);
    return of_all_positions(engine_->evaluate(batches.all().front()));
  }
  /// Puts what this rank answers for into `result`, which all ranks share. Collective.
  void collect(LayoutResult& result, bool with_gradients = true) {
    comm::Communicator& ranks = groups().all();
    for (int turn = 0; turn < ranks.size(); ++turn) {
      if (turn == ranks.rank()) put_own(result, with_gradients);
      ranks.barrier();  // which also brings weights that are under way to the rank whose turn it is
    }
  }

 private:
  /// Token losses that the ranks of one model have.
  double of_all_positions(double sum) {
    for (comm::Communicator* ranks : {&groups().of(layout::GroupRole::context), &groups().pipeline()})
      ranks->host().all_reduce(view(std::span(&sum, 1), Shape{1}), comm::Reduction::sum).wait();
    return sum;
  }
  /// A rank's micro-batches of a step.
  class StepBatches {
   public:
    StepBatches(const LayoutRank& rank, int number)
        : each_(rank.config_.plan.microbatches),
          first_(each_ * rank.groups().at().dp),
          batches_(each_ * rank.config_.plan.dp, rank.config_.samples, rank.config_.positions, rank.config_.model.vocabulary,
                   static_cast<std::uint64_t>(number)) {
      std::vector<std::int32_t>& targets = batches_.target_values();
      for (std::size_t i = 0; i < targets.size() / 3; ++i) targets[i] = -1;
    }
    std::span<const data::Batch> mine() const {
      return batches_.all().subspan(static_cast<std::size_t>(first_), static_cast<std::size_t>(each_));
    }
    std::int64_t targets() const {
      std::int64_t count = 0;
      for (const data::Batch& batch : mine())
        count += std::ranges::count_if(elements<std::int32_t>(batch.targets), [](std::int32_t target) { return target >= 0; });
      return count;
    }

   private:
    int each_, first_;
    Batches batches_;
  };
  void put_own(LayoutResult& result, bool with_gradients) {
    parallel::TrainingState& state = engine_->state();
    result.slots.resize(state.slots().size());
    state.for_each({.gradients = with_gradients, .slots = true}, [&](const parallel::StateRange& range) {
      const layout::Unit& unit = state.units()[static_cast<std::size_t>(range.unit.value)];
      const auto put = [&](Values& to, const Tensor& values, const layout::Range& part) {
        if (part.count == 0) return;
        const Tensor own = values.flat(part.first - range.range.first, part.count);
        for (const checkpoint::HeldTensor& held : checkpoint::hold(unit, part, own)) put_ranges(to[held.tensor.name], held);
      };
      put(result.weights, range.master, range.own);
      if (with_gradients) put(result.gradients, range.gradient, range.own);
      for (std::size_t s = 0; s < range.slots.size(); ++s) put(result.slots[s], range.slots[s], range.own_slots);
    });
  }
  static void put_ranges(std::vector<float>& whole, const checkpoint::HeldTensor& held) {
    whole.resize(static_cast<std::size_t>(held.tensor.shape.elements()), std::nanf(""));
    for (const checkpoint::HeldRange& range : held.ranges) {
      if (!range.counts) continue;
      checkpoint::for_each_run(range, [&](std::int64_t first, const Tensor& values) {
        const std::vector<float> wide = values_of(values);
        std::ranges::copy(wide, whole.begin() + first);
      });
    }
  }

  train::EngineConfig config_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ops::Ops> ops_;
  std::unique_ptr<train::Engine> engine_;
};

inline void on_layout(const LayoutRun& run, const std::function<void(LayoutRank&)>& body) {
  comm::run_ranks(run.plan.ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
    LayoutRank rank(run, world);
    body(rank);
  });
}

/// Steps [first, end) on one rank.
inline void take_steps(LayoutRank& rank, int first, int end, LayoutResult& result) {
  for (int step = first; step < end; ++step) {
    const train::StepResult done = rank.step(step);
    if (!rank.lead()) continue;
    result.losses.push_back(done.loss);
    result.norms.push_back(done.gradient_norm);
  }
}

inline LayoutResult learn(const LayoutRun& run) {
  LayoutResult result;
  on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    rank.engine().check_state();
    take_steps(rank, 0, run.steps, result);
    rank.collect(result);
    const double evaluated = rank.evaluate();
    if (rank.lead()) result.evaluated = evaluated;
  });
  return result;
}

/// ||a - b|| / max(||b||, 1e-6 ||all of b||) of every tensor (numerics.md section 5).
inline void expect_near(const Values& a, const Values& b, double tolerance) {
  const auto square = [](const std::vector<float>& x) {
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * value;
    return sum;
  };
  double all = 0;
  for (const auto& [name, values] : b) all += square(values);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, expected] : b) {
    const auto found = a.find(name);
    ASSERT_NE(found, a.end()) << name;
    ASSERT_EQ(found->second.size(), expected.size()) << name;
    std::vector<float> difference(expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) difference[i] = found->second[i] - expected[i];
    const double size = std::max(std::sqrt(square(expected)), 1e-6 * std::sqrt(all));
    EXPECT_LE(std::sqrt(square(difference)), tolerance * size) << name;
  }
}

inline void expect_near(const LayoutResult& a, const LayoutResult& b, double tolerance) {
  const auto near = [&](const std::vector<double>& x, const std::vector<double>& y) {
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance * y[i]) << "step " << i;
  };
  near(a.losses, b.losses);
  near(a.norms, b.norms);
  EXPECT_NEAR(a.evaluated, b.evaluated, tolerance * b.evaluated);
  expect_near(a.gradients, b.gradients, tolerance);
  expect_near(a.weights, b.weights, tolerance);
}

inline void expect_equal(const LayoutResult& a, const LayoutResult& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.evaluated, b.evaluated);
  EXPECT_TRUE(a.gradients == b.gradients);
  EXPECT_TRUE(a.weights == b.weights);
  EXPECT_TRUE(a.slots == b.slots);
}

}  // namespace lockstep::support
