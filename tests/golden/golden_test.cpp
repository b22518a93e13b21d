// Every gradient and ten losses of tiny models against values made with PyTorch in float64 (make_gpt2.py, make_llama.py).

#include <gtest/gtest.h>

#include <algorithm>

#include "golden/golden_file.h"
#include "support/tiny_engine.h"

namespace lockstep {
namespace {

struct Case {
  std::string name;
  arch::ModelConfig model;
};

/// Relative to the golden values.
struct Tolerance {
  double loss, gradient;
};

// Trains on the golden tokens from the golden weights.
void expect_golden(const Case& model, const parallel::WeightStorage& weights, const Tolerance& tolerance) {
  const support::GoldenFile golden(io::Path("tests/golden/data") / (model.name + ".safetensors"));
  train::EngineConfig config = support::tiny_config(model.model);
  config.weights = weights;
  support::Machine machine;
  const auto engine = support::make_engine(config, machine);
  support::for_each_parameter(*engine, [&](const support::ParameterState& p) {
    std::vector<float> start = golden.values<float>("weight." + p.name);
    machine.ops->elementwise().cast(p.weight, view(std::span(start), p.weight.shape));
  });
  engine->weights_changed();
  std::vector<std::int32_t> tokens = golden.values<std::int32_t>("tokens");
  std::vector<std::int32_t> targets = golden.values<std::int32_t>("targets");
  const std::vector<double> losses = golden.values<double>("losses");
  constexpr std::int64_t rows = 21;
  const auto all = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t step = 0; step < static_cast<std::int64_t>(losses.size()); ++step) {
    data::Batch batch;
    batch.tokens = view(std::span(tokens), Shape{all}).flat(step * rows, rows);
    batch.targets = view(std::span(targets), Shape{all}).flat(step * rows, rows);
    batch.samples = 3;
    batch.positions = 7;
    const std::span<const std::int32_t> wanted = elements<const std::int32_t>(batch.targets);
    batch.target_count = rows - std::ranges::count(wanted, -1);
    const train::StepResult result = engine->step(std::span(&batch, 1), batch.target_count, step, 1e-2);
    const double expected = losses[static_cast<std::size_t>(step)];
    EXPECT_NEAR(result.loss, expected, tolerance.loss * expected) << "step " << step;
    if (step > 0) continue;
    for (const auto& p : support::parameters_of(*engine)) {
      const std::vector<float> gradient = golden.values<float>("gradient." + p.name);
      EXPECT_LT(support::relative(support::values_of(p.gradient), gradient), tolerance.gradient) << p.name;
    }
  }
}

class GoldenModel : public testing::TestWithParam<Case> {};

TEST_P(GoldenModel, EveryGradientAndTenLosses) { expect_golden(GetParam(), {}, {1e-5, 1e-5}); }

// A bf16 has 8 bits: half a unit is 2e-3 of a value. Ten steps of this large a learning rate magnify what the first ones round.
// Norms of heads leave of a gradient what is across a head: there, rounding is a larger part.
TEST_P(GoldenModel, Bf16StaysNear) { expect_golden(GetParam(), support::bf16_with_masters, {5e-3, 3e-2}); }

TEST_P(GoldenModel, Bf16WithoutMastersStaysNear) { expect_golden(GetParam(), support::bf16_alone, {2e-2, 3e-2}); }

arch::ModelConfig gpt2(bool bias, bool tied, arch::ActivationKind activation) {
  arch::ModelConfig model = support::tiny_model();
  model.bias = model.qkv_bias = bias;
  model.tied = tied;
  model.activation = activation;
  return model;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel,
                         testing::Values(Case{"gpt2_tied_bias_tanh", gpt2(true, true, arch::ActivationKind::gelu_tanh)},
                                         Case{"gpt2_untied_erf", gpt2(false, false, arch::ActivationKind::gelu)},
                                         Case{"llama", support::tiny_llama()}, Case{"qwen2", support::tiny_qwen2()},
                                         Case{"qwen3", support::tiny_qwen3()}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
