#include "train/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "support/tiny_engine.h"
#include "tensor/compare.h"

namespace lockstep::train {
namespace {

using support::Batches;
using support::Machine;
using support::make_engine;
using support::relative;
using support::tiny_config;

/// Every combination of the parts that a configuration chooses.
std::vector<EngineConfig> variants() {
  std::vector<EngineConfig> all;
  for (const bool tied : {true, false}) {
    for (const bool bias : {true, false}) {
      for (const arch::ActivationKind activation :
           {arch::ActivationKind::gelu, arch::ActivationKind::gelu_tanh, arch::ActivationKind::relu}) {
        EngineConfig config = tiny_config();
        config.model.tied = tied;
        config.model.bias = bias;
        config.model.qkv_bias = !bias;
        config.model.activation = activation;
        all.push_back(config);
      }
    }
  }
  all.push_back(tiny_config(support::tiny_llama()));
  all.push_back(tiny_config(support::tiny_qwen2()));
  all.push_back(tiny_config(support::tiny_qwen3()));
  all.push_back(tiny_config(support::tiny_gemma()));
  all.push_back(tiny_config(support::tiny_olmo()));
  EngineConfig gated_with_biases = tiny_config();
  gated_with_biases.model.gated = true;
  all.push_back(gated_with_biases);
  for (const arch::ModelConfig& model : {support::tiny_model(), support::tiny_llama()}) {
    all.push_back(tiny_config(model));
    all.back().model.dropout = 0.2F;
  }
  return all;
}

TEST(Engine, FastKernelsTrainAsTheReferenceDoes) {
  for (const EngineConfig& config : variants()) support::expect_fast_as_reference(config, 1e-5, 1e-5, 1e-4);
}

/// A direction of length 1: the gradient's own, or one in which every element has its part.
std::vector<float> direction(std::span<const float> gradient, bool own, std::uint64_t seed) {
  std::vector<float> d(gradient.begin(), gradient.end());
  const CounterRng rng(seed, "test.direction");
  if (!own) {
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = rng.below(2, i) == 0 ? -1.0F : 1.0F;
  }
  double squares = 0;
  for (const float v : d) squares += static_cast<double>(v) * v;
  for (float& v : d) v /= static_cast<float>(std::sqrt(squares));
  return d;
}

/// How fast the mean loss rises along `d` from `weights`: central differences over h and h / 2, whose errors in h squared cancel.
double slope_along(std::span<const float> d, std::span<float> weights, const std::function<double()>& loss) {
  const std::vector<float> kept(weights.begin(), weights.end());
  const auto rise = [&](float h) {
    double ends[2];
    for (const int sign : {0, 1}) {
      for (std::size_t i = 0; i < d.size(); ++i) weights[i] = kept[i] + (sign == 0 ? -h : h) * d[i];
      ends[sign] = loss();
    }
    return (ends[1] - ends[0]) / (2 * static_cast<double>(h));
  };
  constexpr float h = 0.01F;
  const double wide = rise(h), narrow = rise(h / 2);
  std::ranges::copy(kept, weights.begin());
  return (4 * narrow - wide) / 3;
}

TEST(Engine, GradientsAgreeWithDifferencesOfTheLoss) {
  for (EngineConfig config : variants()) {
    if (config.model.dropout > 0) continue;  // evaluation has none
    config.samples = 1;
    Machine machine(1);
    const auto engine = make_engine(config, machine);
    const Batches batches(1, 1, 7, 65);
    // A learning rate of zero leaves the weights where the gradient was taken.
    engine->step(batches.all(), batches.targets(), 0, 0);
    // Between the ends of a difference some of a ReLU's inputs change sign; a norm behind a branch bends the loss.
    const bool bent = config.model.activation == arch::ActivationKind::relu || config.model.post_norm;
    const double tolerance = bent ? 2e-2 : 1e-3;
    const auto loss = [&] { return engine->evaluate(batches.all()[0]) / static_cast<double>(batches.targets()); };
    for (const support::ParameterState& p : support::parameters_of(*engine)) {
      const std::span<const float> g = elements<float>(p.gradient);
      const double size = std::sqrt(std::inner_product(g.begin(), g.end(), g.begin(), 0.0));
      for (const auto& [own, seed] : {std::pair{true, 0}, {false, 1}, {false, 2}}) {
        const std::vector<float> d = direction(g, own, static_cast<std::uint64_t>(seed));
        const double expected = std::inner_product(g.begin(), g.end(), d.begin(), 0.0);
        const double found = slope_along(d, elements<float>(p.weight), loss);
        EXPECT_NEAR(expected, found, tolerance * size + 2e-5) << p.name;
      }
    }
  }
}

TEST(Engine, AccumulationIsTheLargerBatch) {
  EngineConfig whole = tiny_config();
  whole.samples = 6;
  EngineConfig parts = tiny_config();
  parts.samples = 2;
  parts.plan.microbatches = 3;
  for (const bool tied : {true, false}) {
    whole.model.tied = parts.model.tied = tied;
    Machine machine;
    const auto a = make_engine(whole, machine);
    const auto b = make_engine(parts, machine);
    const Batches one(1, 6, 7, 65);
    const Batches three(3, 2, 7, 65);
    for (int step = 0; step < 2; ++step) {
      const StepResult x = a->step(one.all(), one.targets(), step, 1e-3);
      const StepResult y = b->step(three.all(), three.targets(), step, 1e-3);
      EXPECT_NEAR(x.loss, y.loss, 1e-5);
      for (std::size_t i = 0; i < support::parameters_of(*a).size(); ++i) {
        EXPECT_LT(relative(support::parameters_of(*a)[i].gradient, support::parameters_of(*b)[i].gradient), 1e-4)
            << support::parameters_of(*a)[i].name;
      }
    }
  }
}

TEST(Engine, IgnoredTargetsCountNowhere) {
  Machine machine;
  const auto a = make_engine(tiny_config(), machine);
  const auto b = make_engine(tiny_config(), machine);
  Batches batches(1, 3, 7, 65);
  const StepResult all = a->step(batches.all(), batches.targets(), 0, 0);
  for (std::size_t i = 0; i < 7; ++i) batches.target_values()[i] = -1;
  const StepResult masked = b->step(batches.all(), batches.targets() - 7, 0, 0);
  EXPECT_NE(all.loss, masked.loss);
  EXPECT_NEAR(masked.loss, b->evaluate(batches.all()[0]) / 14, 1e-6);
  for (std::int32_t& target : batches.target_values()) target = -1;
  const StepResult none = b->step(batches.all(), 0, 1, 0);
  EXPECT_EQ(none.loss, 0);
  EXPECT_EQ(none.gradient_norm, 0);
}

TEST(Engine, EveryThreadCountGivesTheSameBits) {
  for (const arch::ModelConfig& model :
       {support::tiny_model(), support::tiny_llama(), support::tiny_qwen3(), support::tiny_gemma()}) {
    std::vector<std::vector<float>> weights;
    for (const int threads : {1, 2, 3}) {
      EngineConfig config = tiny_config(model);
      config.model.dropout = 0.1F;
      config.plan.microbatches = 2;
      Machine machine(threads);
      const auto engine = make_engine(config, machine);
      const Batches batches(2, 3, 7, 65);
      for (int step = 0; step < 3; ++step) engine->step(batches.all(), batches.targets(), step, 1e-2);
      std::vector<float> flat;
      for (const auto& p : support::parameters_of(*engine))
        flat.insert(flat.end(), elements<float>(p.weight).begin(), elements<float>(p.weight).end());
      weights.push_back(flat);
    }
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_EQ(weights[0], weights[2]);
  }
}

/// All that the optimizer changes, as bytes: NaN equals itself.
std::vector<std::byte> bytes_kept(Engine& engine) {
  std::vector<std::byte> all;
  for (const support::ParameterState& p : support::parameters_of(engine)) {
    for (const Tensor& tensor : {p.weight, p.exp_avg, p.exp_avg_sq})
      all.insert(all.end(), elements<std::byte>(tensor).begin(), elements<std::byte>(tensor).end());
  }
  return all;
}

TEST(Engine, AGradientThatIsNotFiniteChangesNothing) {
  Machine machine;
  const auto engine = make_engine(tiny_config(), machine);
  const Batches batches(1, 3, 7, 65);
  engine->step(batches.all(), batches.targets(), 0, 1e-3);  // moments that another step would change
  float& weight = elements<float>(support::parameters_of(*engine)[0].weight)[0];
  const float kept = weight;
  weight = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::byte> before = bytes_kept(*engine);
  EXPECT_FALSE(engine->step(batches.all(), batches.targets(), 1, 1e-3).finite);
  EXPECT_TRUE(bytes_kept(*engine) == before);
  weight = kept;
  EXPECT_TRUE(engine->step(batches.all(), batches.targets(), 1, 1e-3).finite);
  EXPECT_FALSE(bytes_kept(*engine) == before);
}

// All of a step's targets are masked: nothing is learnt, and nothing decays.
TEST(Engine, AStepWithoutTargetsChangesNothing) {
  Machine machine;
  const auto engine = make_engine(tiny_config(), machine);
  Batches batches(1, 3, 7, 65);
  engine->step(batches.all(), batches.targets(), 0, 1e-3);
  const std::vector<std::byte> before = bytes_kept(*engine);
  std::ranges::fill(batches.target_values(), -1);
  const StepResult result = engine->step(batches.all(), 0, 1, 1e-3);
  EXPECT_EQ(result.targets, 0);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.gradient_norm, 0);
  EXPECT_TRUE(result.finite);
  EXPECT_TRUE(bytes_kept(*engine) == before);
}

TEST(Engine, TheWrongNumberOfMicrobatchesIsABug) {
  Machine machine;
  const auto engine = make_engine(tiny_config(), machine);
  const Batches two(2, 3, 7, 65);
  EXPECT_THROW(engine->step(two.all(), two.targets(), 0, 1e-3), BrokenRule);
}

TEST(Decoder, ReadingInPiecesGivesTheBitsOfTheTrainingPass) {
  arch::ModelConfig untied = support::tiny_model();
  untied.tied = false;
  for (const arch::ModelConfig& model : {support::tiny_model(), untied, support::tiny_llama(), support::tiny_qwen2(),
                                         support::tiny_qwen3(), support::tiny_gemma()}) {
    Machine machine;
    const auto engine = make_engine(tiny_config(model), machine);
    const Batches batches(1, 1, 7, 65);
    const auto logits_of = [&](std::vector<std::int64_t> pieces) {
      support::TinyReader reader(engine->context(), machine);
      std::int64_t first = 0;
      for (const std::int64_t count : pieces) {
        reader.read(batches.all()[0].tokens, first, count);
        first += count;
      }
      return support::values_of(reader.logits);
    };
    const std::vector<float> whole = logits_of({7});
    EXPECT_EQ(whole, logits_of({1, 1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(whole, logits_of({3, 4}));
    // The training pass says the same: its loss is the loss of these logits.
    double loss = 0;
    for (std::size_t t = 0; t < 7; ++t) {
      double sum = 0;
      for (std::size_t v = 0; v < 65; ++v) sum += std::exp(static_cast<double>(whole[t * 65 + v]));
      loss += std::log(sum) - whole[t * 65 + static_cast<std::size_t>(elements<std::int32_t>(batches.all()[0].targets)[t])];
    }
    EXPECT_NEAR(engine->evaluate(batches.all()[0]), loss, 1e-4);
  }
}

// Three texts in one decoder, whose pages are dealt out backwards. One is read whole while the others are read in pieces. Two
// begin alike and share no page, for none is full.
TEST(Decoder, ATextHasTheSameBitsWhateverIsReadWithIt) {
  arch::ModelConfig learned = support::tiny_model();
  learned.tied = false;
  for (const arch::ModelConfig& model : {learned, support::tiny_qwen3(), support::tiny_gemma()}) {
    Machine machine;
    const auto engine = make_engine(tiny_config(model), machine);
    const Batches batches(3, 1, 7, 65);
    std::vector<std::vector<float>> alone;
    for (const data::Batch& batch : batches.all()) {
      support::TinyReader reader(engine->context(), machine);
      reader.read(batch.tokens, 0, 7);
      alone.push_back(support::values_of(reader.logits));
    }
    model::Decoder decoder(engine->context(), {.texts = 3, .pages = 5}, 9);
    Arena workspace("decoder", MemoryKind::workspace), cache("cache", MemoryKind::workspace);
    decoder.declare(workspace, cache);
    Tensor logits;
    workspace.declare(logits, "logits", Shape{9, 65}, DType::f32);
    Ledger ledger;
    workspace.commit(*machine.runtime, ledger);
    cache.commit(*machine.runtime, ledger);
    for (std::int64_t t = 0; t < 3; ++t) decoder.cache().set_pages(t, 0, std::vector{static_cast<std::int32_t>(4 - t)});
    using Passes = std::vector<std::vector<ops::CachedText>>;
    const Passes passes = {{{0, 2, 0, 2}, {2, 7, 0, 1}}, {{0, 1, 0, 0}, {1, 4, 2, 2}}, {{0, 6, 1, 0}, {6, 1, 6, 2}}};
    for (const std::vector<ops::CachedText>& pass : passes) {
      std::vector<std::int32_t> tokens;
      for (const ops::CachedText& text : pass) {
        const auto ids = elements<std::int32_t>(batches.all()[static_cast<std::size_t>(text.text)].tokens);
        tokens.insert(tokens.end(), ids.begin() + text.position, ids.begin() + text.position + text.rows);
      }
      const std::int64_t rows = std::ssize(tokens);
      decoder.logits(logits.slice_rows(0, rows), decoder.read(view(std::span(tokens), Shape{rows}), pass));
      const std::vector<float> values = support::values_of(logits);
      for (const ops::CachedText& text : pass) {
        const std::vector<float>& expected = alone[static_cast<std::size_t>(text.text)];
        EXPECT_TRUE(std::equal(values.begin() + 65 * text.first, values.begin() + 65 * (text.first + text.rows),
                               expected.begin() + 65 * text.position));
      }
    }
    EXPECT_THROW(decoder.cache().set_pages(0, 0, std::vector{5}), BrokenRule);
    EXPECT_THROW(decoder.begin(std::vector<ops::CachedText>{{0, 10, 0, 0}}), BrokenRule);
  }
}

}  // namespace
}  // namespace lockstep::train
