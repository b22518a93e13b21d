// Ranks that divide the positions of every sample learn what one rank learns.

#include <gtest/gtest.h>

#include "support/layout_run.h"
#include "support/temp_folder.h"
#include "train/state.h"

namespace lockstep::train {
namespace {

using layout::ContextMethod;
using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

constexpr ContextMethod kMethods[] = {ContextMethod::allgather, ContextMethod::ulysses, ContextMethod::ring};

std::vector<arch::ModelConfig> models_with_dropout() {
  std::vector<arch::ModelConfig> all{support::tiny_model(), support::tiny_llama(), support::tiny_qwen2()};
  for (arch::ModelConfig& model : all) model.dropout = 0.2F;
  return all;
}

layout::ParallelPlan plan_of(int cp, ContextMethod method, int dp = 1, int tp = 1) {
  return {.dp = dp, .tp = tp, .cp = cp, .context = method, .ranks_per_host = dp * tp * cp};
}

TEST(ContextParallel, RanksLearnWhatOneLearns) {
  for (const arch::ModelConfig& model : models_with_dropout()) {
    const LayoutResult one = support::learn(support::alone({.plan = {}, .model = model}));
    for (const ContextMethod method : kMethods) {
      for (const int cp : {2, 3}) {
        const LayoutRun run{.plan = plan_of(cp, method), .model = model};
        SCOPED_TRACE(layout::describe(run.plan));
        support::expect_near(support::learn(run), one, 1e-5);
      }
    }
  }
}

// Which positions a rank has differs from micro-batch to micro-batch.
TEST(ContextParallel, RanksThatAreDealtDocumentsLearnWhatOneLearns) {
  for (arch::ModelConfig model : models_with_dropout()) {
    model.block_size = 12;
    model.vocabulary = 9;
    for (const ContextMethod method : kMethods) {
      for (const int cp : {2, 3}) {
        LayoutRun run{.plan = plan_of(cp, method), .model = model, .positions = 12, .document_end = 3};
        run.plan.microbatches = 3;
        SCOPED_TRACE(layout::describe(run.plan));
        const LayoutResult ranks = support::learn(run);
        support::expect_near(ranks, support::learn(support::alone(run)), 1e-5);
        if (method == ContextMethod::ulysses || cp == 3) continue;
        run.plan.pp = 2;
        run.plan.schedule = "zb-h1";
        run.plan.ranks_per_host = 4;
        support::expect_equal(support::learn(run), ranks);
      }
    }
  }
}

TEST(ContextParallel, SamplesAndLayersAreDividedToo) {
  for (const arch::ModelConfig& model : models_with_dropout()) {
    for (const ContextMethod method : kMethods) {
      const bool too_few_heads = method == ContextMethod::ulysses && model.heads / 2 < 2;
      for (const bool sequence : {false, true}) {
        if (too_few_heads) continue;
        LayoutRun run{.plan = plan_of(2, method, 1, 2), .model = model};
        run.plan.sequence = sequence;
        run.plan.microbatches = 2;
        SCOPED_TRACE(layout::describe(run.plan));
        support::expect_near(support::learn(run), support::learn(support::alone(run)), 1e-5);
      }
      const LayoutRun run{.plan = plan_of(2, method, 2), .model = model};
      SCOPED_TRACE(layout::describe(run.plan));
      support::expect_near(support::learn(run), support::learn(support::alone(run)), 1e-5);
    }
  }
}

TEST(ContextParallel, CutStateAndRecomputationChangeNoBit) {
  for (const ContextMethod method : kMethods) {
    LayoutRun run{.plan = plan_of(2, method, 2), .model = models_with_dropout()[1]};
    run.plan.microbatches = 2;
    const LayoutResult whole = support::learn(run);
    for (int level = 1; level <= 3; ++level) {
      layout::set_zero_level(run.plan, level);
      SCOPED_TRACE(testing::Message() << layout::describe(run.plan) << " zero " << level);
      support::expect_equal(support::learn(run), whole);
    }
    run.plan.recompute = {layout::Recompute::Kind::full};
    support::expect_equal(support::learn(run), whole);
  }
}

TEST(ContextParallel, Bf16StaysNear) {
  for (const ContextMethod method : kMethods) {
    const LayoutRun run{
        .plan = plan_of(2, method), .model = models_with_dropout()[1], .weights = support::bf16_with_masters, .steps = 1};
    support::expect_near(support::learn(run), support::learn(support::alone(run)), 2e-2);
  }
}

// Keys are walked as one rank walks them.
TEST(ContextParallel, GatheringHasTheForwardPassOfOneRank) {
  LayoutRun run{.plan = plan_of(2, ContextMethod::allgather), .model = models_with_dropout()[1], .steps = 0};
  const LayoutResult ranks = support::learn(run), one = support::learn(support::alone(run));
  EXPECT_NEAR(ranks.evaluated, one.evaluated, 1e-14 * one.evaluated) << "token losses are added in another order, in f64";
}

TEST(ContextParallel, OneRankGoesOnFromWhatSeveralSaved) {
  const LayoutRun many{.plan = plan_of(2, ContextMethod::ulysses), .model = models_with_dropout()[0]}, one = support::alone(many);
  const TempFolder folder;
  io::Path saved;
  LayoutResult first, resumed, uninterrupted;
  support::on_layout(many, [&](LayoutRank& rank) {
    rank.engine().initialise();
    support::take_steps(rank, 0, 2, first);
    const checkpoint::SaveReport report = save_run(folder.path(), rank.engine(), {.step = 2}, Json::Object{}, rank.team());
    if (rank.lead()) saved = report.folder;
    support::take_steps(rank, 2, 4, uninterrupted);
  });
  support::on_layout(one, [&](LayoutRank& rank) {
    comm::Communicator& ranks = rank.groups().all();
    load_run(*checkpoint::open_together(ranks, saved), rank.engine(), ranks, rank.team());
    support::take_steps(rank, 2, 4, resumed);
  });
  ASSERT_EQ(resumed.losses.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(resumed.losses[i], uninterrupted.losses[i], 1e-5 * resumed.losses[i]);
}

}  // namespace
}  // namespace lockstep::train
