#pragma once

// A tiny model trained on thread ranks in the layout that words describe. Its result is what all ranks are left with: whole
// tensors by name. So layouts compare with each other and with one rank.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/held_unit.h"
#include "comm/thread/thread_world.h"
#include "layout/plan_fields.h"
#include "support/tiny_engine.h"
#include "train/engine.h"
#include "train/replicas.h"

namespace lockstep::support {

/// The wish that words say, with commas between ("dp=2,zero=3"). They are those of `verify` (docs/verify.md), and settings by the
/// last part of their name. A later word takes the place of an earlier one.
inline layout::PlanWish wish_from(const std::string& words) {
  layout::PlanWish wish;
  wish.parallel.dp = 1;
  std::istringstream all(words);
  for (std::string word; std::getline(all, word, ',');) {
    const std::string name = word.substr(0, word.find('='));
    std::string value = name == word ? "true" : word.substr(name.size() + 1);
    if (name == "split") std::ranges::replace(value, '+', ',');
    const auto named = [&](const layout::FieldRow& row) { return row.word == name || row.setting.ends_with("." + name); };
    const layout::FieldRow& row = *std::ranges::find_if(layout::plan_fields(), named);
    row.value.set(wish, row.value.type == ValueType::text ? Json(value) : Json::parse(value));
  }
  return wish;
}

struct LayoutRun {
  std::string layout = {};  ///< its words; none: one rank
  arch::ModelConfig model = tiny_model();
  parallel::WeightStorage weights = {};
  train::OptimizerSettings optimizer = {};
  float grad_clip = 1;
  std::int64_t samples = 1;  ///< samples of a micro-batch
  int steps = 3;
  layout::LeaseSize leases = layout::LeaseSize::block;
  std::optional<layout::ActionTable> table = {};
  parallel::OffloadOptions offload = {};
  bool saves_beside = false;
  int copied_pieces = 0;
  std::int64_t audit = 0;
  std::optional<std::int64_t> positions = {};  ///< none: as usual
  std::optional<std::int32_t> document_end = {};

  layout::ParallelPlan plan() const {
    const layout::PlanWish wish = wish_from(layout);
    layout::ParallelPlan plan = layout::plan_of(wish, 1);
    layout::place_offloaded(plan, wish.memory, false);
    const bool hosts = wish.memory.zero_group == layout::CutOver::host;
    plan.ranks_per_host = hosts ? 2 : plan.ranks();
    plan.leases = leases;
    plan.table = table;
    return plan;
  }
  train::EngineConfig config() const {
    const layout::ParallelWish wish = wish_from(layout).parallel;
    train::EngineConfig config = tiny_config(model);
    config.plan = plan();
    config.gradients = {.bucket_bytes = wish.bucket_bytes, .overlap = wish.overlap};
    config.weights = weights;
    config.optimizer = optimizer;
    config.grad_clip = grad_clip;
    config.samples = samples;
    config.offload = offload;
    config.saves_beside = saves_beside;
    config.copied_pieces = copied_pieces;
    config.audit = audit;
    config.positions = positions.value_or(config.positions);
    config.document_end = document_end;
    return config;
  }
};

/// An update that noise in a gradient near zero hardly changes: AdamW's first steps make much of it.
inline const train::OptimizerSettings smooth{.name = "sgd", .momentum = 0.9F};

/// The same run with more words.
inline LayoutRun with(LayoutRun run, const std::string& words) {
  run.layout += run.layout.empty() || words.empty() ? words : "," + words;
  return run;
}
inline LayoutRun at_level(const LayoutRun& run, int level) { return with(run, "zero=" + std::to_string(level)); }
/// The same model and micro-batches on one rank.
inline LayoutRun alone(LayoutRun run) {
  const layout::ParallelPlan plan = run.plan();
  run.layout = "gas=" + std::to_string(plan.microbatches * plan.dp);
  return run;
}

/// Ten clipped steps of each model with weights of each type; with dropout where positions are learned.
inline std::vector<LayoutRun> in_all_types(const std::vector<arch::ModelConfig>& models) {
  std::vector<LayoutRun> all;
  for (const arch::ModelConfig& model : models) {
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, bf16_with_masters, bf16_alone}) {
      LayoutRun& run =
          all.emplace_back(LayoutRun{.layout = "gas=2", .model = model, .weights = weights, .grad_clip = 0.1F, .steps = 10});
      run.model.dropout = model.position == arch::PositionKind::rope ? 0 : 0.1F;
    }
  }
  return all;
}

/// Values of whole tensors, in f32.
using Values = std::map<std::string, std::vector<float>>;

struct LayoutResult {
  std::vector<double> losses, norms;
  double evaluated = 0;  ///< the loss of an evaluation with the last weights
  Values weights, gradients;
  std::vector<Values> slots;
};

/// Micro-batches of a step: a rank's of those that all layouts with as many samples share. A third of the targets is masked.
struct StepBatches {
  StepBatches(const train::EngineConfig& config, int replica, int number)
      : all(config.plan.microbatches * config.plan.dp, config.samples, config.positions, config.model.vocabulary,
            static_cast<std::uint64_t>(number)),
        mine(all.all().subspan(static_cast<std::size_t>(config.plan.microbatches * replica),
                               static_cast<std::size_t>(config.plan.microbatches))) {
    std::vector<std::int32_t>& values = all.target_values();
    std::fill_n(values.begin(), values.size() / 3, -1);
    for (const data::Batch& batch : mine)
      targets += std::ranges::count_if(elements<std::int32_t>(batch.targets), [](std::int32_t target) { return target >= 0; });
  }
  StepBatches(const StepBatches&) = delete;
  StepBatches& operator=(const StepBatches&) = delete;
  Batches all;
  std::span<const data::Batch> mine;
  std::int64_t targets = 0;  ///< targets of these micro-batches
};

class LayoutRank {
 public:
  LayoutRank(const LayoutRun& run, comm::Communicator& world,
             const parallel::StoreFactory& stores = parallel::make_parameter_store)
      : config_(run.config()),
        runtime_(open_runtime({}, {.threads = 1})),
        stream_(runtime_->make_stream()),
        ops_(ops::make_ops(*runtime_, *stream_)) {
    world.attach(*stream_, runtime_->team());
    const auto replicas = [](const train::UpdaterParts& parts) { return std::make_unique<train::Replicas>(parts); };
    engine_ = std::make_unique<train::Engine>(config_, *runtime_, *ops_, world, replicas, stores);
    engine_->commit();
  }
  train::Engine& engine() { return *engine_; }
  const parallel::Groups& groups() const { return engine_->groups(); }
  Runtime& runtime() { return *runtime_; }
  Team& team() { return runtime_->team(); }
  int rank() const { return groups().all().rank(); }
  bool lead() const { return groups().lead(); }

  StepBatches batches(int number) const { return {config_, groups().at().dp, number}; }
  train::StepResult step(const StepBatches& batches, int number, double learning_rate = 1e-2) {
    return engine_->step(batches.mine, batches.targets, number, learning_rate);
  }
  train::StepResult step(int number, double learning_rate = 1e-2) { return step(batches(number), number, learning_rate); }
  /// The mean loss of step `number`'s samples with the weights as they are, without dropout. Every replica has its own.
  /// Collective.
  double mean_loss(int number) {
    const StepBatches batches = this->batches(number);
    double sum = 0;
    for (const data::Batch& batch : batches.mine) sum += engine_->evaluate(batch);
    return of_all_positions(sum) / static_cast<double>(batches.targets);
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
  /// The sum of token losses over the ranks of one model.
  double of_all_positions(double sum) {
    for (comm::Communicator* ranks : {&groups().of(layout::GroupRole::context), &groups().pipeline()})
      ranks->host().all_reduce(view(std::span(&sum, 1), Shape{1}), comm::Reduction::sum).wait();
    return sum;
  }
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

/// Runs `body` on the ranks of a run.
inline void on_layout(const LayoutRun& run, const std::function<void(LayoutRank&)>& body,
                      const parallel::StoreFactory& stores = parallel::make_parameter_store) {
  comm::run_ranks(run.plan().ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
    LayoutRank rank(run, world, stores);
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

/// Trains the run on its ranks. Ranks that keep the same values have the same bits before and after the steps, or this throws.
inline LayoutResult learn(const LayoutRun& run, const parallel::StoreFactory& stores = parallel::make_parameter_store) {
  LayoutResult result;
  on_layout(
      run,
      [&](LayoutRank& rank) {
        rank.engine().initialise();
        rank.engine().check_state();
        take_steps(rank, 0, run.steps, result);
        rank.engine().check_state();
        rank.collect(result);
        const double evaluated = rank.evaluate();
        if (rank.lead()) result.evaluated = evaluated;
      },
      stores);
  return result;
}

/// Whether both have all values, with the same bits.
inline bool same_bits(const Values& a, const Values& b) {
  const auto same = [](const auto& x, const auto& y) {
    return std::memcmp(x.second.data(), y.second.data(), x.second.size() * sizeof(float)) == 0;
  };
  return a == b && std::ranges::equal(a, b, same);
}
inline bool same_bits(const std::vector<Values>& a, const std::vector<Values>& b) {
  return std::ranges::equal(a, b, [](const Values& x, const Values& y) { return same_bits(x, y); });
}

/// Expects `||a - b|| / max(||b||, 1e-6 ||all of b||)` below `tolerance` for every tensor (numerics.md section 5).
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
  EXPECT_TRUE(same_bits(a.gradients, b.gradients));
  EXPECT_TRUE(same_bits(a.weights, b.weights));
  EXPECT_TRUE(same_bits(a.slots, b.slots));
}

/// Expects that the run learns what one rank learns, and returns what it learnt.
inline LayoutResult expect_near_one_rank(const LayoutRun& run, double tolerance) {
  SCOPED_TRACE(run.layout);
  LayoutResult result = learn(run);
  expect_near(result, learn(alone(run)), tolerance);
  return result;
}

/// Expects that the run learns the bits of `whole` in each layout.
inline void expect_bits_of(const LayoutResult& whole, const LayoutRun& run, const std::vector<std::string>& layouts) {
  for (const std::string& words : layouts) {
    const LayoutRun laid_out = with(run, words);
    SCOPED_TRACE(laid_out.layout);
    expect_equal(learn(laid_out), whole);
  }
}
inline void expect_bits_of(const LayoutRun& run, const std::vector<std::string>& layouts) {
  expect_bits_of(learn(run), run, layouts);
}

}  // namespace lockstep::support
