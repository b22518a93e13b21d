// Logits of tiny published models against values made with PyTorch in float64 (make_huggingface.py).

#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/huggingface/weights.h"
#include "golden/golden_file.h"
#include "model/decoder.h"
#include "support/largest.h"
#include "support/tiny_engine.h"
#include "train/inference.h"

namespace lockstep {
namespace {

using checkpoint::huggingface::Weights;

constexpr std::int64_t samples = 3, positions = 9;

std::vector<float> logits_of(const Weights& weights, std::vector<std::int32_t> tokens) {
  support::Machine machine;
  const support::DataParallel alone(*machine.world);
  train::Inference inference(weights.config(), DType::f32, *machine.runtime, *machine.ops, alone.groups);
  inference.load(weights, machine.runtime->team());
  const model::Context& context = inference.context();
  model::Decoder decoder(context, {.texts = samples}, samples * positions);
  Arena workspace("eval", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
  Tensor logits;
  decoder.declare(workspace, cache);
  workspace.declare(logits, "logits", Shape{samples * positions, context.config.vocabulary}, DType::f32);
  Ledger ledger;
  workspace.commit(*machine.runtime, ledger);
  cache.commit(*machine.runtime, ledger);
  std::vector<ops::CachedText> texts;
  for (std::int64_t s = 0; s < samples; ++s) texts.push_back({.first = s * positions, .rows = positions, .text = s});
  const Tensor x = decoder.read(view(std::span(tokens), Shape{samples * positions}), texts);
  decoder.logits(logits, x);
  const std::span<float> values = elements<float>(logits);
  return {values.begin(), values.end()};
}

class PublishedModel : public testing::TestWithParam<const char*> {};

TEST_P(PublishedModel, HasTheLogitsOfPyTorch) {
  const io::Path folder = io::Path("tests/golden/data/huggingface") / GetParam();
  const support::GoldenFile golden(folder / "logits.golden");
  const Weights weights(folder);
  EXPECT_TRUE(weights.warnings().empty());
  const std::vector<float> expected = golden.values<float>("logits");
  const std::vector<float> found = logits_of(weights, golden.values<std::int32_t>("tokens"));
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_LT(support::relative(found, expected), 2e-5);
  const double largest = support::largest_difference(expected, std::vector<float>(expected.size()));
  EXPECT_LT(support::largest_difference(found, expected), 2e-5 * largest);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedModel,
                         testing::Values("gemma2", "gemma3", "gpt2", "gpt2_untied", "llama", "llama_tied", "phi3", "qwen2",
                                         "qwen3", "rasbt", "rasbt_fused", "smollm3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep
