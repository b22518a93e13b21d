// Steps that are left out, for they have no target or a gradient that is not finite. They change nothing, in every layout. The
// updates behind them are those of a run that never had them.

#include <gtest/gtest.h>

#include <array>

#include "support/saved_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

enum class Bad : std::uint8_t { no_targets, not_finite };

/// Puts `with` into the first elements of all ranges and returns what was there. Empty: all bits set, no number in f32 and bf16.
std::vector<std::vector<std::byte>> exchange_firsts(Engine& engine, const std::vector<std::vector<std::byte>>& with) {
  std::vector<std::vector<std::byte>> before;
  engine.state().for_each({.changes = true}, [&](const parallel::StateRange& range) {
    const std::span<std::byte> first = elements<std::byte>(range.master).first(size_of(range.master.dtype));
    before.emplace_back(first.begin(), first.end());
    if (with.empty()) std::ranges::fill(first, std::byte{0xFF});
    if (!with.empty()) std::ranges::copy(with[before.size() - 1], first.begin());
  });
  if (engine.groups().all().size() > 1) engine.state().gather();
  engine.weights_changed();
  return before;
}

/// A step whose gradient would change everything, were it used.
void bad_step(Engine& engine, Bad kind, int number) {
  const EngineConfig& config = engine.config();
  const support::Batches batches(config.plan.microbatches, config.samples, config.positions, config.model.vocabulary, 77);
  const std::int64_t made = engine.state().updates();
  if (kind == Bad::no_targets) {
    EXPECT_EQ(engine.step(batches.all(), 0, number, 1e-2).targets, 0);
  } else {
    const auto kept = exchange_firsts(engine, {});
    EXPECT_FALSE(engine.step(batches.all(), batches.targets(), number, 1e-2).finite);
    exchange_firsts(engine, kept);
  }
  EXPECT_EQ(engine.state().updates(), made);
}

constexpr std::array kinds{Bad::no_targets, Bad::not_finite};

/// The run's steps, with bad ones before, between and behind them.
LayoutResult learn_with_gaps(const LayoutRun& run, Bad kind) {
  LayoutResult result;
  std::array<LayoutResult, 3> before, after;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    int number = 0;
    for (int step = 0; step < run.steps; ++step) {
      rank.collect(before[static_cast<std::size_t>(step)], false);
      bad_step(rank.engine(), kind, number++);
      rank.collect(after[static_cast<std::size_t>(step)], false);
      const support::StepBatches batches = rank.batches(step);
      const StepResult done = rank.step(batches, number++);
      if (rank.lead()) result.losses.push_back(done.loss);
    }
    bad_step(rank.engine(), kind, number);
    rank.collect(result, false);
    EXPECT_EQ(rank.engine().state().updates(), run.steps);
    const double evaluated = rank.evaluate();
    if (rank.lead()) result.evaluated = evaluated;
  });
  for (std::size_t step = 0; step < before.size(); ++step) {
    EXPECT_TRUE(support::same_bits(before[step].weights, after[step].weights));
    EXPECT_TRUE(support::same_bits(before[step].slots, after[step].slots));
  }
  return result;
}

void expect_gaps_do_nothing(LayoutRun run) {
  SCOPED_TRACE(run.layout + " " + run.optimizer.name);
  run.model.dropout = 0;  // masks follow from the iteration
  const LayoutResult whole = support::learn(run);
  for (const Bad kind : kinds) {
    const LayoutResult gaps = learn_with_gaps(run, kind);
    EXPECT_EQ(gaps.losses, whole.losses);
    EXPECT_TRUE(support::same_bits(gaps.weights, whole.weights));
    EXPECT_TRUE(support::same_bits(gaps.slots, whole.slots));
    EXPECT_EQ(gaps.evaluated, whole.evaluated);
  }
}

TEST(LeftOut, StepsDoNothingAtAnyLevelAndInAnyType) {
  const std::array<OptimizerSettings, 5> methods{OptimizerSettings{},
                                                 {.moments = DType::bf16, .rounding = Rounding::stochastic},
                                                 {.name = "sgd", .momentum = 0.9F, .weight_decay = 0.1F},
                                                 {.name = "lars", .momentum = 0.9F},
                                                 {.name = "muon", .momentum = 0.9F}};
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
    for (const OptimizerSettings& optimizer : methods) {
      for (const char* layout : {"dp=1,gas=2", "dp=3,gas=2,zero=1", "dp=2,gas=2,zero=3"})
        expect_gaps_do_nothing({.layout = layout, .weights = weights, .optimizer = optimizer});
    }
  }
}

TEST(LeftOut, StepsDoNothingWhereStateLiesElsewhere) {
  const TempFolder disk;
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    for (const char* moved :
         {"offload_optimizer=nvme", "offload_optimizer=cpu", "zero=3,offload_optimizer=nvme,offload_params=nvme",
          "zero=3,offload_optimizer=cpu,offload_params=cpu"}) {
      LayoutRun run = support::with({.layout = "dp=2,gas=2", .weights = weights}, moved);
      run.offload.folder = disk.path();
      run.offload.range_elements = 768;
      expect_gaps_do_nothing(run);
    }
  }
}

TEST(LeftOut, StepsDoNothingWhereRanksDivideTheModel) {
  for (const char* layout :
       {"tp=2", "dp=2,tp=2,sequence", "cp=2", "dp=2,pp=2,gas=2", "dp=2,pp=2,gas=2,zero=2", "dp=2,tp=2,canonical"})
    expect_gaps_do_nothing({.layout = layout, .samples = 2});
}

/// AdamW as Loshchilov and Hutter write it, in double.
class PlainAdamW {
 public:
  explicit PlainAdamW(Engine& engine) {
    for (const support::ParameterState& p : support::parameters_of(engine)) {
      const std::vector<float> values = support::values_of(p.weight);
      weights_.emplace_back(values.begin(), values.end());
    }
    means_.resize(weights_.size());
    squares_.resize(weights_.size());
  }
  /// By the engine's last gradient, to the engine's weights.
  void expect_update(Engine& engine, double rate, const OptimizerSettings& rule) {
    ++updates_;
    const auto parameters = support::parameters_of(engine);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<float> gradient = support::values_of(parameters[i].gradient),
                               now = support::values_of(parameters[i].weight);
      const double decay = parameters[i].weight.shape.rank() >= 2 ? static_cast<double>(rule.weight_decay) : 0;
      means_[i].resize(now.size());
      squares_[i].resize(now.size());
      for (std::size_t j = 0; j < now.size(); ++j) {
        const double g = gradient[j], b1 = rule.beta1, b2 = rule.beta2;
        double &m = means_[i][j], &v = squares_[i][j], &w = weights_[i][j];
        m = b1 * m + (1 - b1) * g;
        v = b2 * v + (1 - b2) * g * g;
        const double corrected = m / (1 - std::pow(b1, updates_)), size = std::sqrt(v / (1 - std::pow(b2, updates_)));
        w -= rate * decay * w + rate * corrected / (size + static_cast<double>(rule.eps));
        ASSERT_NEAR(static_cast<double>(now[j]), w, 2e-6) << parameters[i].name;
      }
    }
  }

 private:
  int updates_ = 0;
  std::vector<std::vector<double>> weights_, means_, squares_;
};

// Update, nothing, update: as a loop over PyTorch's AdamW that does not call step().
TEST(LeftOut, UpdatesAreCountedAsAPlainLoopCountsThem) {
  for (const Bad kind : kinds) {
    support::Machine machine(1);
    EngineConfig config = support::tiny_config();
    config.model.dropout = 0;
    config.grad_clip = 0;
    config.optimizer.eps = 1e-3F;  // small gradients do not become large steps
    const auto engine = support::make_engine(config, machine);
    PlainAdamW plain(*engine);
    for (int number = 0; number < 6; ++number) {
      if (number % 2 == 0) {
        bad_step(*engine, kind, number);
        continue;
      }
      const support::Batches batches(1, 3, 7, 65, static_cast<std::uint64_t>(number));
      engine->step(batches.all(), batches.targets(), number, 1e-2);
      plain.expect_update(*engine, 1e-2, config.optimizer);
    }
  }
}

// Saved behind a step that was left out, and gone on with by other ranks at another level.
TEST(LeftOut, AResumeGoesOnCounting) {
  const LayoutRun run{.layout = "gas=6", .optimizer = {.eps = 1e-3F}, .steps = 2};  // sums in another order make no large steps
  const LayoutResult whole = support::learn(run);
  const TempFolder folder;
  io::Path saved;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    rank.step(0);
    bad_step(rank.engine(), Bad::no_targets, 1);
    support::save_rank(rank, folder.path(), 2, saved);
  });
  const checkpoint::Manifest manifest = checkpoint::read_manifest(saved);
  EXPECT_EQ(manifest.step, 2);
  EXPECT_EQ(manifest.updates, 1);
  for (const std::string words : {"dp=1", "dp=2,gas=3", "dp=3,gas=2,zero=1", "dp=2,gas=3,zero=3"}) {
    SCOPED_TRACE(words);
    LayoutResult after;
    support::on_layout(support::with(run, words), [&](LayoutRank& rank) {
      support::load(rank, saved);
      rank.engine().check_state();
      rank.step(rank.batches(1), 2);
      rank.collect(after);
      EXPECT_EQ(rank.engine().state().updates(), 2);
    });
    if (words == "dp=1") {
      EXPECT_TRUE(support::same_bits(after.weights, whole.weights));
    }
    for (const auto& [name, values] : whole.weights) {
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(after.weights.at(name)[i], values[i], 2e-4) << name;
    }
  }
}

// Ranks that count differently would correct differently.
TEST(LeftOut, RanksThatCountDifferentlyAreTold) {
  support::on_layout({.layout = "dp=2"}, [](LayoutRank& rank) {
    rank.engine().initialise();
    rank.engine().state().set_updates(rank.rank());
    EXPECT_THROW(rank.engine().check_state(), SystemError);
    rank.engine().state().set_updates(7 - rank.rank());
    rank.engine().broadcast_state();
    EXPECT_EQ(rank.engine().state().updates(), 7);
  });
}

}  // namespace
}  // namespace lockstep::train
