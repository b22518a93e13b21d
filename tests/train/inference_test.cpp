// A model for reading: weights that are prepacked for writing text say the same.

#include "train/inference.h"

#include <gtest/gtest.h>

#include "support/tiny_engine.h"

namespace lockstep::train {
namespace {

using support::Machine;
using support::values_of;

/// Weights made from numbers.
class Numbers final : public checkpoint::WeightSource {
 public:
  void read_model(std::span<const checkpoint::HeldTensor> weights, cpu::Team& /*team*/) const override {
    const CounterRng rng(3, "weights");
    std::uint64_t i = 0;
    for (const checkpoint::HeldTensor& held : weights) {
      const Tensor& all = held.ranges.at(0).values;
      for (std::int64_t j = 0; j < all.elements(); ++j) {
        const auto x = static_cast<float>(rng.uniform(i++) - 0.5);
        if (all.dtype == DType::f32) {
          reinterpret_cast<float*>(all.data)[j] = x;
        } else {
          reinterpret_cast<BFloat16*>(all.data)[j] = to_bfloat16(x);
        }
      }
    }
  }
};

/// Logits of seven tokens, read all at once and one by one.
std::vector<std::vector<float>> logits_of(const Inference& inference, Machine& machine) {
  std::vector<std::int32_t> ids = {1, 60, 7, 7, 12, 64, 3};
  const Tensor tokens = view(std::span(ids), Shape{7});
  std::vector<std::vector<float>> results;
  for (const std::int64_t piece : {7, 1}) {
    support::TinyReader reader(inference.context(), machine);
    for (std::int64_t first = 0; first < 7; first += piece) reader.read(tokens, first, piece);
    results.push_back(values_of(reader.logits));
  }
  return results;
}

TEST(Inference, PrepackedWeightsGiveTheSameLogits) {
  arch::ModelConfig tied = support::tiny_model(), llama = support::tiny_llama(), odd = support::tiny_qwen2();
  for (arch::ModelConfig* model : {&tied, &llama}) {
    model->width = 24;
    model->head_size = 8;
  }
  for (const arch::ModelConfig& model : {tied, llama, odd}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      Machine machine;
      Inference inference(model, type, *machine.runtime, *machine.ops);
      cpu::Team team(1);
      inference.load(Numbers(), team);
      const auto before = logits_of(inference, machine);
      EXPECT_EQ(before[0], before[1]);
      inference.prepack();
      EXPECT_EQ(logits_of(inference, machine), before);
    }
  }
}

// What a later model finds at the same place in memory is its own.
TEST(Inference, ForgetsItsWeights) {
  Machine machine;
  cpu::Team team(1);
  arch::ModelConfig model = support::tiny_llama();
  model.width = 24;
  model.head_size = 8;
  std::vector<std::vector<float>> first;
  for (int i = 0; i < 4; ++i) {
    Inference inference(model, DType::f32, *machine.runtime, *machine.ops);
    inference.load(Numbers(), team);
    const auto logits = logits_of(inference, machine);
    if (i == 0) first = logits;
    EXPECT_EQ(logits, first);
    inference.prepack();
  }
}

}  // namespace
}  // namespace lockstep::train
