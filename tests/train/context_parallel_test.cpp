// Ranks that divide the positions of every sample learn what one rank learns.

#include <gtest/gtest.h>

#include "support/saved_run.h"
#include "support/temp_folder.h"

namespace lockstep::train {
namespace {

using support::LayoutResult;
using support::LayoutRun;

const std::vector<std::string> methods{"context=allgather", "context=ulysses", "context=ring"};

std::vector<arch::ModelConfig> models_with_dropout() {
  std::vector<arch::ModelConfig> all{support::tiny_model(), support::tiny_llama(), support::tiny_qwen2(), support::tiny_qwen3(),
                                     support::tiny_gemma()};
  for (arch::ModelConfig& model : all) model.dropout = 0.2F;
  return all;
}

LayoutRun run_of(const std::string& words, const arch::ModelConfig& model = models_with_dropout()[1]) {
  return {.layout = words, .model = model, .optimizer = support::smooth, .samples = 2};
}

TEST(ContextParallel, RanksLearnWhatOneLearns) {
  for (const arch::ModelConfig& model : models_with_dropout()) {
    for (const std::string& method : methods)
      for (const char* ranks : {"cp=2,", "cp=3,"}) support::expect_near_one_rank(run_of(ranks + method, model), 1e-5);
  }
}

// Which positions a rank has differs from micro-batch to micro-batch.
TEST(ContextParallel, RanksThatAreDealtDocumentsLearnWhatOneLearns) {
  for (arch::ModelConfig model : models_with_dropout()) {
    model.block_size = 12;
    model.vocabulary = 9;
    for (const std::string& method : methods) {
      for (const char* ranks : {"gas=3,cp=2,", "gas=3,cp=3,"}) {
        LayoutRun run = run_of(ranks + method, model);
        run.positions = 12;
        run.document_end = 3;
        const LayoutResult learnt = support::expect_near_one_rank(run, 1e-5);
        if (method == "context=ulysses" || run.plan().cp == 3) continue;
        support::expect_bits_of(learnt, run, {"pp=2,schedule=zb-h1"});
      }
    }
  }
}

TEST(ContextParallel, SamplesAndLayersAreDividedToo) {
  for (const arch::ModelConfig& model : models_with_dropout()) {
    for (const std::string& method : methods) {
      support::expect_near_one_rank(run_of("dp=2,cp=2," + method, model), 1e-5);
      if (method == "context=ulysses" && model.heads / 2 < 2) continue;  // too few heads
      for (const char* ranks : {"tp=2,cp=2,gas=2,", "tp=2,cp=2,gas=2,sequence,"})
        support::expect_near_one_rank(run_of(ranks + method, model), 1e-5);
    }
  }
}

TEST(ContextParallel, CutStateAndRecomputationChangeNoBit) {
  for (const std::string& method : methods)
    support::expect_bits_of(run_of("dp=2,cp=2,gas=2," + method), {"zero=1", "zero=2", "zero=3", "zero=3,recompute=full"});
}

TEST(ContextParallel, Bf16StaysNear) {
  for (const std::string& method : methods) {
    LayoutRun run = run_of("cp=2," + method);
    run.weights = support::bf16_with_masters;
    run.steps = 1;
    support::expect_near_one_rank(run, 2e-2);
  }
}

// Keys are walked as one rank walks them.
TEST(ContextParallel, GatheringHasTheForwardPassOfOneRank) {
  LayoutRun run = run_of("cp=2");
  run.steps = 0;
  const LayoutResult ranks = support::learn(run), one = support::learn(support::alone(run));
  EXPECT_NEAR(ranks.evaluated, one.evaluated, 1e-14 * one.evaluated) << "token losses are added in another order, in f64";
}

TEST(ContextParallel, OneRankGoesOnFromWhatSeveralSaved) {
  const LayoutRun many = run_of("cp=2,context=ulysses", models_with_dropout()[0]);
  const TempFolder folder;
  const io::Path saved = support::save(many, folder.path()).folder;
  LayoutRun through = many;
  through.steps = 4;
  const std::vector<double> resumed = support::resume(support::alone(many), saved, 2, 2).after.losses,
                            uninterrupted = support::learn(through).losses;
  ASSERT_EQ(resumed.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(resumed[i], uninterrupted[2 + i], 1e-5 * resumed[i]);
}

}  // namespace
}  // namespace lockstep::train
