// Canonical mode (numerics.md section 3.8): the degrees that other runs keep within a tolerance change no bit.

#include <gtest/gtest.h>

#include "support/layout_run.h"

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

struct Degrees {
  int dp = 1, microbatches = 1, tp = 1;
  bool sequence = false;
  int pp = 1, zero = 0, cp = 1;
  layout::ContextMethod context = layout::ContextMethod::allgather;
};

/// 16 samples a step, however they are divided; gradients are clipped.
LayoutRun run_of(const arch::ModelConfig& model, const Degrees& degrees) {
  LayoutRun run{.model = model,
                .optimizer = {.name = "AdamW"},
                .grad_clip = 0.1F,
                .samples = 16 / degrees.dp / degrees.microbatches,
                .steps = 3};
  run.plan.dp = degrees.dp;
  run.plan.tp = degrees.tp;
  run.plan.pp = degrees.pp;
  run.plan.cp = degrees.cp;
  run.plan.context = degrees.context;
  run.plan.sequence = degrees.sequence;
  run.plan.microbatches = degrees.microbatches;
  run.plan.ranks_per_host = run.plan.ranks();
  run.plan.canonical = true;
  layout::set_zero_level(run.plan, degrees.zero);
  return run;
}

/// What is evaluated is a micro-batch, of another size in each.
void expect_same_steps(LayoutResult result, const LayoutResult& expected, bool same_evaluation) {
  if (!same_evaluation) result.evaluated = expected.evaluated;
  support::expect_equal(result, expected);
}

void expect_bits_of_one_rank(const std::vector<Degrees>& layouts, const parallel::WeightStorage& weights = {}) {
  for (const arch::ModelConfig& model : models_of_six_heads()) {
    LayoutRun one = run_of(model, {});
    one.weights = weights;
    const LayoutResult alone = support::learn(one);
    for (const Degrees& degrees : layouts) {
      LayoutRun run = run_of(model, degrees);
      run.weights = weights;
      SCOPED_TRACE(testing::Message() << layout::describe(run.plan) << " gas " << degrees.microbatches << " zero " << degrees.zero
                                      << (model.tied ? " tied" : ""));
      expect_same_steps(support::learn(run), alone, run.samples == one.samples);
    }
  }
}

TEST(Canonical, SamplesDividedOverRanksAndMicroBatchesChangeNoBit) {
  expect_bits_of_one_rank({{.dp = 2},
                           {.dp = 4},
                           {.dp = 8},
                           {.microbatches = 2},
                           {.microbatches = 4},
                           {.microbatches = 8},
                           {.dp = 2, .microbatches = 2},
                           {.dp = 2, .microbatches = 4}});
}

TEST(Canonical, LayersDividedOverRanksChangeNoBit) {
  expect_bits_of_one_rank({{.tp = 2}, {.tp = 2, .sequence = true}, {.dp = 2, .tp = 2}, {.dp = 2, .tp = 2, .sequence = true}});
}

TEST(Canonical, HeadsThatRanksDivideUnevenlyOrShareChangeNoBit) {
  expect_bits_of_one_rank({{.tp = 4}, {.tp = 4, .sequence = true}, {.dp = 2, .tp = 4, .zero = 3}});
  expect_bits_of_one_rank({{.tp = 4}, {.tp = 2, .cp = 2}}, support::bf16_with_masters);
}

constexpr layout::ContextMethod ulysses = layout::ContextMethod::ulysses;

TEST(Canonical, SequencesDividedOverRanksChangeNoBit) {
  expect_bits_of_one_rank({{.cp = 2},
                           {.cp = 2, .context = ulysses},
                           {.dp = 2, .microbatches = 2, .cp = 2},
                           {.microbatches = 2, .zero = 1, .cp = 2, .context = ulysses},
                           {.microbatches = 2, .pp = 2, .zero = 2, .cp = 2},
                           {.dp = 2, .zero = 3, .cp = 2}});
}

// Ranks share key/value heads of one of the models.
TEST(Canonical, SequencesAndLayersDividedOverRanksChangeNoBit) {
  expect_bits_of_one_rank({{.tp = 2, .cp = 2}, {.tp = 2, .cp = 2, .context = ulysses}, {.cp = 4}, {.cp = 4, .context = ulysses}});
}

// Positions that 8 ranges divide.
TEST(Canonical, SequencesThatTensorRanksDivideTooChangeNoBit) {
  for (arch::ModelConfig model : models_of_six_heads()) {
    model.block_size = 8;
    LayoutRun one = run_of(model, {});
    one.positions = 8;
    const LayoutResult alone = support::learn(one);
    for (const Degrees& degrees : {Degrees{.tp = 2, .sequence = true, .cp = 2},
                                   Degrees{.microbatches = 2, .tp = 2, .sequence = true, .zero = 3, .cp = 2}}) {
      LayoutRun run = run_of(model, degrees);
      run.positions = 8;
      SCOPED_TRACE(layout::describe(run.plan));
      expect_same_steps(support::learn(run), alone, run.samples == one.samples);
    }
  }
}

TEST(Canonical, PipelinesAndStateThatIsCutChangeNoBit) {
  expect_bits_of_one_rank({{.microbatches = 2, .pp = 2},
                           {.microbatches = 2, .tp = 2, .sequence = true, .pp = 2},
                           {.dp = 2, .zero = 1},
                           {.dp = 4, .zero = 2},
                           {.dp = 2, .microbatches = 2, .zero = 3},
                           {.dp = 2, .tp = 2, .sequence = true, .zero = 3}});
}

TEST(Canonical, MicroBatchesThatAreOpenSideBySideChangeNoBit) {
  const arch::ModelConfig model = models_of_six_heads().back();
  const LayoutResult alone = support::learn(run_of(model, {}));
  for (const int cp : {1, 2}) {
    LayoutRun run = run_of(model, {.microbatches = 4, .pp = 2, .cp = cp});
    run.plan.schedule = "zb-h1";
    expect_same_steps(support::learn(run), alone, false);
  }
}

TEST(Canonical, Bf16ChangesNoBit) {
  const std::vector<Degrees> layouts{{.dp = 4}, {.microbatches = 2}, {.tp = 2, .sequence = true}, {.dp = 2, .tp = 2}, {.cp = 2}};
  expect_bits_of_one_rank(layouts, support::bf16_with_masters);
  expect_bits_of_one_rank(layouts, support::bf16_alone);
}

TEST(Canonical, GradientsThatWouldGoToAFileStayWhereMicroBatchesAreAdded) {
  const arch::ModelConfig model = models_of_six_heads().front();
  const LayoutResult alone = support::learn(run_of(model, {}));
  for (const int microbatches : {1, 4}) {
    LayoutRun run = run_of(model, {.microbatches = microbatches});
    run.plan.optimizer.tier = layout::Tier::disk;
    expect_same_steps(support::learn(run), alone, microbatches == 1);
  }
}

TEST(Canonical, DocumentsChangeNoBit) {
  for (const arch::ModelConfig& model : models_of_six_heads()) {
    LayoutRun one = run_of(model, {}), ranks = run_of(model, {.dp = 2, .tp = 2, .sequence = true});
    one.document_end = ranks.document_end = 3;
    expect_same_steps(support::learn(ranks), support::learn(one), false);
  }
}

// Which positions a rank has is another matter in each micro-batch, and weight gradients may be made later.
TEST(Canonical, PartsThatAreDealtOutByDocumentsChangeNoBit) {
  for (arch::ModelConfig model : models_of_six_heads()) {
    model.block_size = 16;
    const auto documents = [&](const Degrees& degrees) {
      LayoutRun run = run_of(model, degrees);
      run.positions = 16;
      run.document_end = 3;
      return run;
    };
    const LayoutResult alone = support::learn(documents({}));
    LayoutRun later = documents({.microbatches = 4, .pp = 2, .cp = 2});
    later.plan.schedule = "zb-h1";
    for (const LayoutRun& run : {documents({.dp = 2, .cp = 2}), later, documents({.cp = 2, .context = ulysses})})
      expect_same_steps(support::learn(run), alone, run.samples == 16);
  }
}

TEST(Canonical, ActivationsThatAreMadeAgainOrLieElsewhereChangeNoBit) {
  const arch::ModelConfig model = models_of_six_heads().front();
  LayoutRun again = run_of(model, {.microbatches = 2, .zero = 3, .cp = 2}), elsewhere = again;
  again.plan.recompute = {layout::Recompute::Kind::full, 2};
  elsewhere.plan.activations = layout::Tier::disk;
  const LayoutResult alone = support::learn(run_of(model, {}));
  for (const LayoutRun& run : {again, elsewhere}) expect_same_steps(support::learn(run), alone, false);
}

// The sums are other ones than those of a run that is not canonical, and as good.
TEST(Canonical, RunsLearnWhatOthersLearn) {
  for (const arch::ModelConfig& model : models_of_six_heads()) {
    LayoutRun run = run_of(model, {});
    run.optimizer = {.name = "sgd", .momentum = 0.9F};
    const LayoutResult canonical = support::learn(run);
    run.plan.canonical = false;
    const LayoutResult usual = support::learn(run);
    support::expect_near(canonical, usual, 1e-5);
    EXPECT_FALSE(canonical.gradients == usual.gradients);
  }
}

}  // namespace
}  // namespace lockstep::train
