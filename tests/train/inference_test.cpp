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
  std::unique_ptr<checkpoint::RangeReader> read_model(std::span<const checkpoint::LogicalTensor> /*weights*/) const override {
    return std::make_unique<Ranges>();
  }

 private:
  struct Ranges final : checkpoint::RangeReader {
    void fill(std::span<const checkpoint::HeldTensor> tensors, Team& /*team*/) override {
      for (const checkpoint::HeldTensor& held : tensors) {
        const CounterRng rng(3, held.tensor.name);
        for (const checkpoint::HeldRange& range : held.ranges) {
          for (std::int64_t i = 0; i < range.values.elements(); ++i) {
            const auto x = static_cast<float>(rng.uniform(static_cast<std::uint64_t>(range.first + i)) - 0.5);
            if (range.values.dtype == DType::f32) {
              reinterpret_cast<float*>(range.values.data)[i] = x;
            } else {
              reinterpret_cast<BFloat16*>(range.values.data)[i] = to_bfloat16(x);
            }
          }
        }
      }
    }
    void finish(comm::Communicator& /*ranks*/) override {}
  };
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
      const support::DataParallel alone(*machine.world);
      Inference inference(model, type, *machine.runtime, *machine.ops, alone.groups);
      Team team(1);
      inference.load(Numbers(), team);
      const auto before = logits_of(inference, machine);
      EXPECT_EQ(before[0], before[1]);
      inference.prepack();
      EXPECT_EQ(logits_of(inference, machine), before);
    }
  }
}

TEST(Inference, NewWeightsAreReadInThePlaceOfPackedOnes) {
  Machine machine;
  Team team(1);
  for (arch::ModelConfig model : {support::tiny_llama(), support::tiny_model()}) {
    model.width = 24;
    model.head_size = 8;
    const support::DataParallel alone(*machine.world);
    Inference inference(model, DType::f32, *machine.runtime, *machine.ops, alone.groups);
    inference.load(Numbers(), team);
    const auto first = logits_of(inference, machine);
    inference.prepack();
    inference.load(Numbers(), team);
    EXPECT_EQ(logits_of(inference, machine), first);
  }
}

}  // namespace
}  // namespace lockstep::train
