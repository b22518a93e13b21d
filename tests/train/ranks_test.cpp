// Data parallelism: ranks share the global batch, and what a run learns does not depend on how many there are.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace lockstep::train {
namespace {

using support::LayoutResult;
using support::LayoutRun;

constexpr int global_batch = 12;

/// A run of the global batch, in micro-batches of so many samples.
LayoutRun run_of(int ranks, int samples, const arch::ModelConfig& model = support::tiny_model(),
                 const parallel::WeightStorage& weights = {}) {
  const std::string words = "dp=" + std::to_string(ranks) + ",gas=" + std::to_string(global_batch / samples / ranks);
  return {.layout = words, .model = model, .weights = weights, .optimizer = support::smooth, .samples = samples};
}

/// All ranks are left with the same, or this throws. What is evaluated is a micro-batch, of another size in each.
void expect_near(const LayoutRun& run, LayoutResult expected, double tolerance = 1e-5) {
  SCOPED_TRACE(run.layout);
  const LayoutResult learnt = support::learn(run);
  expected.evaluated = learnt.evaluated;
  support::expect_near(learnt, expected, tolerance);
}

TEST(Ranks, ShareOneGlobalBatch) {
  for (const bool tied : {true, false}) {
    arch::ModelConfig model = support::tiny_model();
    model.tied = tied;
    const LayoutResult alone = support::learn(run_of(1, global_batch, model));
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int samples : {1, global_batch / ranks}) expect_near(run_of(ranks, samples, model), alone);
    }
  }
}

TEST(Ranks, ShareALlama) {
  for (const arch::ModelConfig& model : {support::tiny_llama(), support::tiny_qwen2()}) {
    const LayoutResult alone = support::learn(run_of(1, global_batch, model));
    for (const int ranks : {2, 3, 4}) {
      expect_near(run_of(ranks, 1, model), alone);
      support::expect_bits_of(run_of(ranks, 1, model), {"bucket=1,overlap=false"});
    }
  }
}

// Rows of activations are rounded alike wherever they are computed: what differs is, as in fp32, how gradients are added up.
TEST(Ranks, ShareOneGlobalBatchInBf16) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone}) {
    for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_qwen2()}) {
      const LayoutResult alone = support::learn(run_of(1, global_batch, model, weights));
      for (const int ranks : {2, 4}) {
        const LayoutRun run = run_of(ranks, 1, model, weights);
        expect_near(run, alone, 2e-2);
        support::expect_bits_of(run, {"bucket=1", "bucket=1,overlap=false"});
      }
    }
  }
}

// Masks are addressed by the global number of a sample.
TEST(Ranks, DropTheSame) {
  arch::ModelConfig model = support::tiny_model();
  model.dropout = 0.2F;
  const LayoutResult alone = support::learn(run_of(1, 3, model));
  for (const int ranks : {4, 2}) expect_near(run_of(ranks, 3, model), alone);
}

TEST(Ranks, OverlapAndBucketsChangeNoBit) {
  for (const char* reduce : {"reduce=step", "reduce=microbatch"}) {
    support::expect_bits_of(support::with(run_of(3, 2), reduce),
                            {"bucket=1", "bucket=1,overlap=false", "bucket=20000", "bucket=20000,overlap=false",
                             "bucket=1073741824", "bucket=1073741824,overlap=false"});
  }
}

// (a0 + b0) + (a1 + b1) and (a0 + a1) + (b0 + b1): other bits, the same sum.
TEST(Ranks, ReducingEachMicroBatchIsWithinTolerance) {
  expect_near(support::with(run_of(2, 2), "reduce=microbatch"), support::learn(run_of(2, 2)));
  // With one micro-batch a step they are one.
  support::expect_bits_of(run_of(2, 6), {"reduce=microbatch"});
}

TEST(Ranks, AreRepeatable) { support::expect_bits_of(run_of(4, 1), {""}); }

// Rank 0 alone has start values.
TEST(Ranks, TakeWhatRankZeroStartsWith) {
  LayoutResult sent, seeded;
  for (LayoutResult* result : {&sent, &seeded}) {
    support::on_layout(run_of(3, 1), [&](support::LayoutRank& rank) {
      if (result == &seeded || rank.lead()) rank.engine().initialise();
      if (result == &sent) rank.engine().broadcast_state();
      EXPECT_EQ(rank.engine().global_batch(), global_batch);
      support::take_steps(rank, 0, 3, *result);
      rank.engine().check_state();
      rank.collect(*result);
    });
  }
  support::expect_equal(sent, seeded);
}

}  // namespace
}  // namespace lockstep::train
