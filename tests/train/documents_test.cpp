// Samples of several documents that do not see each other: what a model learns from them is what it learns from each by itself.

#include <gtest/gtest.h>

#include "support/layout_run.h"

namespace lockstep::train {
namespace {

using support::LayoutRank;
using support::LayoutResult;
using support::LayoutRun;

constexpr std::int32_t end = 7;

std::vector<arch::ModelConfig> both_models() { return {support::tiny_model(), support::tiny_llama()}; }

/// Tokens of four documents of three positions each, as samples of `length` positions; no other token is the end.
struct Text {
  explicit Text(std::int64_t length) {
    const CounterRng rng(3, "test.documents");
    for (std::uint64_t i = 0; i < 12; ++i) {
      const auto token = static_cast<std::int32_t>(8 + rng.below(50, 2 * i));
      tokens.push_back(i % 3 == 2 ? end : token);
      targets.push_back(static_cast<std::int32_t>(rng.below(50, 2 * i + 1)));
    }
    batch.tokens = view(std::span(tokens), Shape{12});
    batch.targets = view(std::span(targets), Shape{12});
    batch.samples = 12 / length;
    batch.positions = length;
    batch.target_count = 12;
  }
  std::vector<std::int32_t> tokens, targets;
  data::Batch batch;
};

/// A step and an evaluation.
LayoutResult learn(const arch::ModelConfig& model, std::int64_t length, std::optional<std::int32_t> document_end) {
  const LayoutRun run{
      .model = model, .optimizer = support::smooth, .samples = 12 / length, .positions = length, .document_end = document_end};
  LayoutResult result;
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    const Text text(length);
    result.evaluated = rank.engine().evaluate(text.batch);
    const StepResult step = rank.engine().step({&text.batch, 1}, 12, 0, 1e-2);
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
    rank.collect(result);
  });
  return result;
}

TEST(Documents, AreLearntAsEachByItself) {
  for (const arch::ModelConfig& model : both_models()) {
    const LayoutResult alone = learn(model, 3, {});
    support::expect_near(learn(model, 6, end), alone, 1e-5);
    support::expect_near(learn(model, 3, end), alone, 1e-6);
    EXPECT_GT(std::fabs(learn(model, 6, {}).evaluated - alone.evaluated), 1e-4 * alone.evaluated) << "they see each other";
  }
}

/// The sums of token losses of pieces [first, first + count) of the text, each read by itself.
double read_apart(const arch::ModelConfig& model, const std::vector<ops::PositionRun>& pieces) {
  double sum = 0;
  const LayoutRun run{.model = model, .samples = 2, .positions = 6};
  support::on_layout(run, [&](LayoutRank& rank) {
    rank.engine().initialise();
    for (const ops::PositionRun& piece : pieces) {
      const Text text(6);
      data::Batch batch = text.batch;
      batch.tokens = batch.tokens.flat(piece.first, piece.count);
      batch.targets = batch.targets.flat(piece.first, piece.count);
      batch.samples = 1;
      batch.positions = piece.count;
      sum += rank.engine().evaluate(batch);
    }
  });
  return sum;
}

TEST(Documents, ThatBeginInTheSampleBeforeBeginWithTheirs) {
  for (const arch::ModelConfig& model : both_models()) {
    const double apart = read_apart(model, {{0, 3}, {3, 1}, {4, 2}, {6, 2}, {8, 1}, {9, 3}});
    EXPECT_NEAR(learn(model, 4, end).evaluated, apart, 1e-5 * apart);
  }
}

TEST(Documents, StartsAreCountedInTheLedger) {
  const auto bytes = [](std::optional<std::int32_t> document_end) {
    EngineConfig config = LayoutRun{}.config();
    config.document_end = document_end;
    return RankMemory(config, {}).ledger(0).total();
  };
  const EngineConfig config = LayoutRun{}.config();
  EXPECT_GE(bytes(end) - bytes({}), config.samples * config.positions * 4);
}

}  // namespace
}  // namespace lockstep::train
