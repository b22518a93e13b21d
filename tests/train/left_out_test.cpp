// Steps that are left out, for they have no target or a gradient that is not finite: nothing changes, in every layout, and the
// updates behind them are those of a run that never had them.

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/find.h"
#include "checkpoint/reader.h"
#include "support/layout_run.h"
#include "support/temp_folder.h"
#include "support/zero_run.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;
using support::ZeroRank;
using support::ZeroResult;
using support::ZeroRun;

enum class Bad : std::uint8_t { no_targets, not_finite };

/// Of the first element of every range; all bits set is no number in f32 and in bf16.
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

/// Steps of batches 0, 1 and 2, with bad ones before, between and behind them.
ZeroResult learn_with_gaps(const ZeroRun& run, Bad kind) {
  ZeroResult result;
  support::on_zero_ranks(run, [&](ZeroRank& rank) {
    rank.engine().initialise();
    int number = 0;
    for (int step = 0; step < 3; ++step) {
      ZeroResult before, after;  // of this rank alone
      rank.collect(before, false);
      bad_step(rank.engine(), kind, number++);
      rank.collect(after, false);
      EXPECT_TRUE(before.masters == after.masters);
      EXPECT_TRUE(before.slots == after.slots);
      rank.step(rank.batches(step), number++);
    }
    bad_step(rank.engine(), kind, number);
    rank.collect(result, false);
    EXPECT_EQ(rank.engine().state().updates(), 3);
    const double evaluated = rank.evaluate();
    if (rank.rank() == 0) result.evaluated = evaluated;
  });
  return result;
}

void expect_gaps_do_nothing(ZeroRun run) {
  run.model.dropout = 0;  // masks follow from the iteration
  const ZeroResult whole = support::learn(run);
  for (const Bad kind : kinds) {
    const ZeroResult gaps = learn_with_gaps(run, kind);
    EXPECT_TRUE(gaps.masters == whole.masters);
    EXPECT_TRUE(gaps.slots == whole.slots);
    EXPECT_EQ(gaps.evaluated, whole.evaluated);
  }
}

TEST(LeftOut, StepsDoNothingAtAnyLevelAndInAnyType) {
  const std::array<OptimizerSettings, 3> methods{OptimizerSettings{},
                                                 {.moments = DType::bf16, .rounding = Rounding::stochastic},
                                                 {.name = "sgd", .momentum = 0.9F, .weight_decay = 0.1F}};
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters, support::bf16_alone}) {
    for (const OptimizerSettings& optimizer : methods) {
      for (const auto& [ranks, level] : {std::pair{1, 0}, {3, 1}, {2, 3}}) {
        SCOPED_TRACE(testing::Message() << optimizer.name << " at level " << level << " on " << ranks);
        expect_gaps_do_nothing({.ranks = ranks, .level = level, .weights = weights, .optimizer = optimizer});
      }
    }
  }
}

TEST(LeftOut, StepsDoNothingWhereStateLiesElsewhere) {
  const TempFolder disk;
  for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_with_masters}) {
    for (const layout::Tier tier : {layout::Tier::disk, layout::Tier::host}) {
      for (const int level : {0, 3}) {
        ZeroRun run{.ranks = 2, .level = level, .weights = weights, .optimizer_tier = tier, .parameters_tier = tier};
        run.offload.folder = disk.path();
        run.offload.range_elements = 768;
        if (level == 0) run.parameters_tier = layout::Tier::device;
        expect_gaps_do_nothing(run);
      }
    }
  }
  expect_gaps_do_nothing({.ranks = 2, .level = 2, .stages = 2});
}

LayoutResult learn_with_gaps(const LayoutRun& run, Bad kind) {
  LayoutResult result;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    for (int step = 0; step < run.steps; ++step) {
      bad_step(rank.engine(), kind, step);
      support::take_steps(rank, step, step + 1, result);
    }
    bad_step(rank.engine(), kind, run.steps);
    rank.collect(result, false);
  });
  return result;
}

TEST(LeftOut, StepsDoNothingWhereRanksDivideTheModel) {
  for (const layout::ParallelPlan& plan : {layout::ParallelPlan{.tp = 2},
                                           {.dp = 2, .tp = 2, .sequence = true},
                                           {.cp = 2},
                                           {.dp = 2, .pp = 2, .microbatches = 2},
                                           {.dp = 2, .tp = 2, .canonical = true}}) {
    LayoutRun run{.plan = plan, .optimizer = {}};
    run.model.dropout = 0;
    SCOPED_TRACE(layout::describe(plan));
    const LayoutResult whole = support::learn(run);
    for (const Bad kind : kinds) {
      const LayoutResult gaps = learn_with_gaps(run, kind);
      EXPECT_EQ(gaps.losses, whole.losses);
      EXPECT_TRUE(gaps.weights == whole.weights);
      EXPECT_TRUE(gaps.slots == whole.slots);
    }
  }
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
  ZeroRun run{.ranks = 1, .optimizer = {.eps = 1e-3F}, .microbatches = 6};  // sums in another order make no large steps
  run.model.dropout = 0;
  run.steps = 2;
  const ZeroResult whole = support::learn(run);
  const TempFolder folder;
  io::Path saved;
  support::on_zero_ranks(run, [&](ZeroRank& rank) {
    rank.engine().initialise();
    rank.step(0);
    bad_step(rank.engine(), Bad::no_targets, 1);
    saved = save_run(folder.path(), rank.engine(), {.step = 2}, Json::Object{}, rank.team()).folder;
  });
  const checkpoint::Manifest manifest = checkpoint::read_manifest(saved);
  EXPECT_EQ(manifest.step, 2);
  EXPECT_EQ(manifest.updates, 1);
  for (const auto& [ranks, level] : {std::pair{1, 0}, {2, 0}, {3, 1}, {2, 3}}) {
    ZeroRun then = run;
    then.ranks = ranks;
    then.level = level;
    then.microbatches = 6 / ranks;
    ZeroResult after;
    support::on_zero_ranks(then, [&](ZeroRank& rank) {
      comm::Communicator& all = rank.engine().groups().all();
      load_run(*checkpoint::open_together(all, saved), rank.engine(), all, rank.team());
      rank.engine().check_state();
      rank.step(rank.batches(1), 2);
      rank.collect(after);
      EXPECT_EQ(rank.engine().state().updates(), 2);
    });
    if (ranks == 1) {
      EXPECT_TRUE(after.masters == whole.masters);
    }
    for (std::size_t unit = 0; unit < whole.masters.size(); ++unit) {
      for (std::size_t at = 0; at < whole.masters[unit].size(); at += sizeof(float)) {
        float is = 0, was = 0;
        std::memcpy(&is, &after.masters[unit][at], sizeof is);
        std::memcpy(&was, &whole.masters[unit][at], sizeof was);
        ASSERT_NEAR(is, was, 2e-4) << ranks << " ranks at level " << level;
      }
    }
  }
}

// Ranks that count differently would correct differently.
TEST(LeftOut, RanksThatCountDifferentlyAreTold) {
  support::on_zero_ranks({.ranks = 2}, [](ZeroRank& rank) {
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
