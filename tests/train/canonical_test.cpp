// Canonical mode (numerics.md section 3.8): the degrees that other runs keep within a tolerance change no bit.

#include <gtest/gtest.h>

#include <functional>

#include "support/layout_run.h"
#include "train/texts/likelihood.h"

namespace lockstep::train {
namespace {

using support::LayoutResult;
using support::LayoutRun;

/// GPT-2 with biases, tied; Llama, untied, with fewer KV heads than heads. Sizes that 8 ranges do not divide.
std::vector<arch::ModelConfig> models_of_six_heads() {
  std::vector<arch::ModelConfig> all{support::tiny_model(), support::tiny_llama()};
  for (arch::ModelConfig& model : all) {
    model.heads = 6;
    model.kv_heads = &model == &all.front() ? 6 : 2;
    model.ffn_width = 301;
    model.dropout = 0.2F;
  }
  return all;
}

/// 16 samples a step, however they are divided; gradients are clipped.
LayoutRun run_of(const arch::ModelConfig& model, const std::string& words = {}) {
  LayoutRun run{.layout = words, .model = model, .grad_clip = 0.1F};
  const layout::ParallelPlan plan = run.plan();
  run.samples = 16 / plan.dp / plan.microbatches;
  return support::with(run, "canonical");
}

using Change = std::function<void(LayoutRun&)>;

/// Each layout, changed as the one rank's run is, learns that one's bits. What is evaluated is a micro-batch, of another size in
/// each.
void expect_bits_of_one_rank(
    const arch::ModelConfig& model, const std::vector<std::string>& layouts, const Change& change = [](LayoutRun&) {}) {
  LayoutRun one = run_of(model);
  change(one);
  const LayoutResult alone = support::learn(one);
  for (const std::string& words : layouts) {
    LayoutRun run = run_of(model, words);
    change(run);
    SCOPED_TRACE(run.layout + (model.tied ? " tied" : ""));
    LayoutResult result = support::learn(run);
    if (run.samples != one.samples) result.evaluated = alone.evaluated;
    support::expect_equal(result, alone);
  }
}

void expect_bits_of_one_rank(const std::vector<std::string>& layouts, const parallel::WeightStorage& weights = {}) {
  for (const arch::ModelConfig& model : models_of_six_heads())
    expect_bits_of_one_rank(model, layouts, [&](LayoutRun& run) { run.weights = weights; });
}

TEST(Canonical, SamplesDividedOverRanksAndMicroBatchesChangeNoBit) {
  expect_bits_of_one_rank({"dp=2", "dp=4", "dp=8", "gas=2", "gas=4", "gas=8", "dp=2,gas=2", "dp=2,gas=4"});
}

TEST(Canonical, LayersDividedOverRanksChangeNoBit) {
  expect_bits_of_one_rank({"tp=2", "tp=2,sequence", "dp=2,tp=2", "dp=2,tp=2,sequence"});
}

TEST(Canonical, HeadsThatRanksDivideUnevenlyOrShareChangeNoBit) {
  expect_bits_of_one_rank({"tp=4", "tp=4,sequence", "dp=2,tp=4,zero=3"});
  expect_bits_of_one_rank({"tp=4", "tp=2,cp=2"}, support::bf16_with_masters);
}

TEST(Canonical, SequencesDividedOverRanksChangeNoBit) {
  expect_bits_of_one_rank({"cp=2", "cp=2,context=ulysses", "dp=2,gas=2,cp=2", "gas=2,zero=1,cp=2,context=ulysses",
                           "gas=2,pp=2,zero=2,cp=2", "dp=2,zero=3,cp=2"});
}

// Ranks share key/value heads of one of the models.
TEST(Canonical, SequencesAndLayersDividedOverRanksChangeNoBit) {
  expect_bits_of_one_rank({"tp=2,cp=2", "tp=2,cp=2,context=ulysses", "cp=4", "cp=4,context=ulysses"});
}

// Positions that 8 ranges divide.
TEST(Canonical, SequencesThatTensorRanksDivideTooChangeNoBit) {
  for (arch::ModelConfig model : models_of_six_heads()) {
    model.block_size = 8;
    expect_bits_of_one_rank(model, {"tp=2,sequence,cp=2", "gas=2,tp=2,sequence,zero=3,cp=2"},
                            [](LayoutRun& run) { run.positions = 8; });
  }
}

TEST(Canonical, PipelinesAndStateThatIsCutChangeNoBit) {
  expect_bits_of_one_rank(
      {"gas=2,pp=2", "gas=2,tp=2,sequence,pp=2", "dp=2,zero=1", "dp=4,zero=2", "dp=2,gas=2,zero=3", "dp=2,tp=2,sequence,zero=3"});
}

TEST(Canonical, MicroBatchesThatAreOpenSideBySideChangeNoBit) {
  expect_bits_of_one_rank(models_of_six_heads().back(), {"gas=4,pp=2,schedule=zb-h1", "gas=4,pp=2,schedule=zb-h1,cp=2"});
}

TEST(Canonical, Bf16ChangesNoBit) {
  for (const parallel::WeightStorage& weights : {support::bf16_with_masters, support::bf16_alone})
    expect_bits_of_one_rank({"dp=4", "gas=2", "tp=2,sequence", "dp=2,tp=2", "cp=2"}, weights);
}

TEST(Canonical, GradientsThatWouldGoToAFileStayWhereMicroBatchesAreAdded) {
  expect_bits_of_one_rank(models_of_six_heads().front(), {"offload_optimizer=nvme", "gas=4,offload_optimizer=nvme"});
}

TEST(Canonical, DocumentsChangeNoBit) {
  for (const arch::ModelConfig& model : models_of_six_heads())
    expect_bits_of_one_rank(model, {"dp=2,tp=2,sequence"}, [](LayoutRun& run) { run.document_end = 3; });
}

// Which positions a rank has is another matter in each micro-batch, and weight gradients may be made later.
TEST(Canonical, PartsThatAreDealtOutByDocumentsChangeNoBit) {
  for (arch::ModelConfig model : models_of_six_heads()) {
    model.block_size = 16;
    expect_bits_of_one_rank(model, {"dp=2,cp=2", "gas=4,pp=2,cp=2,schedule=zb-h1", "cp=2,context=ulysses"}, [](LayoutRun& run) {
      run.positions = 16;
      run.document_end = 3;
    });
  }
}

TEST(Canonical, ActivationsThatAreMadeAgainOrLieElsewhereChangeNoBit) {
  expect_bits_of_one_rank(models_of_six_heads().front(),
                          {"gas=2,zero=3,cp=2,recompute=every:2", "gas=2,zero=3,cp=2,offload_activations=nvme"});
}

// The sums are other ones than those of a run that is not canonical, and as good.
TEST(Canonical, RunsLearnWhatOthersLearn) {
  for (const arch::ModelConfig& model : models_of_six_heads()) {
    LayoutRun run = run_of(model);
    run.optimizer = support::smooth;
    const LayoutResult canonical = support::learn(run), usual = support::learn(support::with(run, "canonical=false"));
    support::expect_near(canonical, usual, 1e-5);
    EXPECT_FALSE(canonical.gradients == usual.gradients);
  }
}

/// The log-likelihood of each token of a text behind the first, by a decoder with start weights.
std::vector<double> likelihoods_of(const LayoutRun& run) {
  std::vector<double> found;
  support::on_layout(run, [&](support::LayoutRank& rank) {
    rank.engine().initialise();
    LikelihoodReader reader(rank.engine().share(), 7);
    Arena workspace("reading", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
    reader.declare(workspace, cache);
    Ledger ledger;
    for (Arena* arena : {&workspace, &cache}) arena->commit(rank.runtime(), ledger);
    const std::vector<std::int32_t> text{1, 60, 7, 7, 12, 64, 3};
    std::vector<double> own;
    for (std::size_t i = 1; i < text.size(); ++i) own.push_back(reader.of(std::span(text).first(i + 1), i).sum);
    if (rank.lead()) found = own;
  });
  return found;
}

TEST(Canonical, TextsAreReadWithTheSameBitsOnAnyRanks) {
  std::vector<arch::ModelConfig> models = models_of_six_heads();
  models.push_back(support::tiny_olmo());
  models.push_back(support::tiny_gemma());
  for (arch::ModelConfig model : models) {
    model.dropout = 0;
    for (const parallel::WeightStorage& weights : {parallel::WeightStorage{}, support::bf16_alone}) {
      LayoutRun one = run_of(model);
      one.weights = weights;
      const std::vector<double> alone = likelihoods_of(one);
      for (const char* words : {"tp=2", "dp=2,tp=2", "tp=2,sequence", "tp=2,zero=3", "cp=2"}) {
        LayoutRun run = run_of(model, words);
        run.weights = weights;
        EXPECT_EQ(likelihoods_of(run), alone) << words;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
