// Every gradient and ten losses of tiny models against values made with PyTorch in float64 (make_gpt2.py, make_llama.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/file.h"
#include "io/safetensors.h"
#include "support/tiny_engine.h"

namespace lockstep {
namespace {

/// Whole tensors of one file, by name.
class Golden {
 public:
  explicit Golden(const std::string& name) : file_(io::Path("tests/golden/data") / name) {
    header_ = io::parse_safetensors(file_.bytes(), file_.bytes().size(), name);
  }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const io::SafetensorsEntry* entry = header_.find(name);
    if (entry == nullptr) throw BrokenRule("the golden file has " + name);
    std::vector<T> out(entry->bytes / sizeof(T));
    std::memcpy(out.data(), file_.bytes().data() + entry->offset, entry->bytes);
    return out;
  }

 private:
  io::MappedFile file_;
  io::SafetensorsHeader header_;
};

double relative(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / std::max(size, 1e-20));
}

struct Case {
  std::string name;
  arch::ModelConfig model;
};

class GoldenModel : public testing::TestWithParam<Case> {};

TEST_P(GoldenModel, EveryGradientAndTenLosses) {
  const Golden golden(GetParam().name + ".safetensors");
  const train::EngineConfig config = support::tiny_config(GetParam().model);
  support::Machine machine;
  const auto engine = support::make_engine(config, machine);
  for (const auto& p : engine->state()) {
    std::ranges::copy(golden.values<float>("weight." + p.name), elements<float>(p.weight).begin());
  }
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
    EXPECT_NEAR(result.loss, expected, 1e-5 * expected) << "step " << step;
    if (step > 0) continue;
    for (const auto& p : engine->state()) {
      const std::vector<float> gradient = golden.values<float>("gradient." + p.name);
      EXPECT_LT(relative(elements<float>(p.gradient), gradient), 1e-5) << p.name;
    }
  }
}

arch::ModelConfig gpt2(bool bias, bool tied, ops::Activation activation) {
  arch::ModelConfig model = support::tiny_model();
  model.bias = model.qkv_bias = bias;
  model.tied = tied;
  model.activation = activation;
  return model;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel,
                         testing::Values(Case{"gpt2_tied_bias_tanh", gpt2(true, true, ops::Activation::gelu_tanh)},
                                         Case{"gpt2_untied_erf", gpt2(false, false, ops::Activation::gelu)},
                                         Case{"llama", support::tiny_llama()}, Case{"qwen2", support::tiny_qwen2()}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
