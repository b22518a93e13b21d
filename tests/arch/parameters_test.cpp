#include "arch/parameters.h"

#include <gtest/gtest.h>

#include <cmath>

#include "arch/flops.h"

namespace lockstep::arch {
namespace {

ModelConfig seed_model() {
  ModelConfig config;
  config.vocabulary = 65;
  return config;
}

TEST(Parameters, SeedRunIsCountedAsItsLogSays) {
  const ParameterCounts counts = count_parameters(seed_model());
  EXPECT_EQ(counts.without_positions, 85'003'776);
  EXPECT_EQ(counts.decayed_tensors, 50);
  EXPECT_EQ(counts.decayed, 85'771'008);
  EXPECT_EQ(counts.other_tensors, 25);
  EXPECT_EQ(counts.other, 19'200);
}

TEST(Parameters, SmallSeedModel) {
  ModelConfig config = seed_model();
  config.layers = config.heads = config.kv_heads = 6;
  config.width = 384;
  config.ffn_width = 1536;
  config.block_size = 256;
  const ParameterCounts counts = count_parameters(config);
  EXPECT_EQ(counts.decayed_tensors, 26);
  EXPECT_EQ(counts.decayed, 10'740'096);
  EXPECT_EQ(counts.other_tensors, 13);
  EXPECT_EQ(counts.other, 4'992);
}

TEST(Parameters, RasbtVariant) {
  ModelConfig config;
  config.bias = true;
  config.tied = false;
  config.init = InitKind::pytorch;
  config.vocabulary = 50257;
  EXPECT_EQ(count_parameters(config, DecayRule::all).total, 163'009'536);
  config.vocabulary = 50304;
  EXPECT_EQ(count_parameters(config, DecayRule::all).total, 163'081'728);
  EXPECT_EQ(count_parameters(config, DecayRule::all).other, 0);
}

TEST(Parameters, SmallStartsFallWithTheWidth) {
  ModelConfig config;
  config.width = 14336;
  config.init = InitKind::small;
  EXPECT_NEAR(init_deviation(config), 0.005282, 5e-7);
  config.init = InitKind::smaller;
  EXPECT_NEAR(init_deviation(config), 0.004822, 5e-7);
  config.width = 768;
  config.layers = 2;
  config.bias = true;
  for (const UnitSpec& unit : unit_table(config)) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.info.shape.rank() < 2) {
        EXPECT_EQ(parameter.init.kind, Init::Kind::constant) << parameter.info.name;
        continue;
      }
      EXPECT_EQ(parameter.init.kind, Init::Kind::normal);
      const bool residual = parameter.info.name.ends_with("c_proj.weight");
      EXPECT_NEAR(parameter.init.value, std::sqrt(1.0 / (3 * 768)) / (residual ? 2 : 1), 1e-8) << parameter.info.name;
    }
  }
}

TEST(Parameters, UnitsHoldEveryParameterOnceDecayedFirst) {
  for (const bool tied : {true, false}) {
    ModelConfig config = seed_model();
    config.bias = config.qkv_bias = true;
    config.tied = tied;
    const std::vector<layout::Unit> units = units_of(unit_table(config));
    const UnitMap map = unit_map(config);
    ASSERT_EQ(static_cast<int>(units.size()), map.count);
    EXPECT_EQ(units[static_cast<std::size_t>(map.head.value)].name, "head");
    EXPECT_EQ(units[static_cast<std::size_t>(map.blocks[3].value)].name, "h.3");
    std::int64_t total = 0;
    for (const layout::Unit& unit : units) {
      std::int64_t end = 0;
      for (const layout::PlacedParameter& parameter : unit.parameters) {
        EXPECT_EQ(parameter.info.decay, parameter.offset < unit.decayed) << parameter.info.name;
        EXPECT_GE(parameter.offset, end);
        end = parameter.offset + parameter.info.shape.elements();
        total += parameter.info.shape.elements();
      }
      EXPECT_LE(end, unit.elements);
      EXPECT_EQ(unit.elements % layout::cut, 0);
    }
    EXPECT_EQ(total, count_parameters(config).total);
  }
}

TEST(Parameters, ALlamaHasNoPositionsAndOneBiasLess) {
  ModelConfig config = seed_model();
  config.bias = true;
  config.norm = NormKind::rmsnorm;
  config.position = PositionKind::rope;
  config.kv_heads = 4;
  config.gated = true;
  config.ffn_width = 2048;
  for (const bool tied : {true, false}) {
    config.tied = tied;
    const std::vector<layout::Unit> units = units_of(unit_table(config));
    EXPECT_EQ(units.front().elements, tied ? 0 : 65 * 768);
    for (const layout::Unit& unit : units) {
      for (const layout::PlacedParameter& parameter : unit.parameters) {
        const std::string& name = parameter.info.name;
        EXPECT_EQ(name.find("ln_1.bias"), std::string::npos);
        if (name == "transformer.h.0.attn.c_attn.weight") {
          EXPECT_EQ(parameter.info.shape, (Shape{768 + 2 * 256, 768}));
        }
        if (name == "transformer.h.0.mlp.c_fc.weight") {
          EXPECT_EQ(parameter.info.shape, (Shape{4096, 768}));
        }
        if (name == "transformer.h.0.mlp.c_fc.bias") {
          EXPECT_EQ(parameter.info.shape, (Shape{4096}));
        }
        if (name == "transformer.h.0.mlp.c_proj.weight") {
          EXPECT_EQ(parameter.info.shape, (Shape{768, 2048}));
        }
      }
    }
  }
}

// What is only looked up multiplies nothing.
TEST(Flops, AnUntiedHeadCostsWhatATiedOneDoes) {
  ModelConfig untied = seed_model();
  untied.tied = false;
  EXPECT_EQ(training_flops_per_token(untied, 1024), training_flops_per_token(seed_model(), 1024));
}

TEST(Flops, SeedFormula) { EXPECT_EQ(training_flops_per_token(seed_model(), 1024), 623'268'864.0); }

TEST(ModelConfig, AllProblemsAreNamed) {
  ModelConfig config;
  config.heads = config.kv_heads = 5;
  config.dropout = 1;
  config.vocabulary = 0;
  const std::vector<Problem> problems = check(config);
  EXPECT_EQ(problems.size(), 2U);
  EXPECT_TRUE(check(ModelConfig{}).empty());
}

TEST(ModelConfig, PartsThatDoNotFit) {
  const auto said = [](const auto& change) {
    ModelConfig config;
    config.position = PositionKind::rope;
    config.rope.scaling = RopeScaling::llama3;
    EXPECT_TRUE(check(config).empty());
    change(config);
    const std::vector<Problem> problems = check(config);
    EXPECT_EQ(problems.size(), 1U);
    return problems.empty() ? std::string() : problems[0].message;
  };
  EXPECT_EQ(said([](ModelConfig& c) { c.kv_heads = 5; }), "model.n_kv_head = 5 does not divide model.n_head = 12");
  EXPECT_EQ(said([](ModelConfig& c) { c.kv_heads = 0; }), "model.n_kv_head = 0: must be at least 1");
  EXPECT_EQ(said([](ModelConfig& c) { c.head_size = 0; }), "model.head_dim = 0: must be at least 1");
  EXPECT_EQ(said([](ModelConfig& c) { c.head_size = 33; }), "heads of 33 features: model.position = rope turns pairs of them");
  EXPECT_EQ(said([](ModelConfig& c) { c.head_size = 258; }).substr(0, 21), "heads of 258 features");
  EXPECT_EQ(said([](ModelConfig& c) { c.ffn_width = 0; }), "model.ffn_width = 0: must be at least 1");
  EXPECT_EQ(said([](ModelConfig& c) { c.norm_eps = 0; }), "model.norm_eps = 0: must be above 0");
  EXPECT_EQ(said([](ModelConfig& c) { c.rope.theta = 1; }), "model.rope_theta = 1: must be above 1");
  EXPECT_EQ(said([](ModelConfig& c) { c.rope.factor = 0.5; }), "model.rope_factor = 0.5: must be at least 1");
  EXPECT_EQ(said([](ModelConfig& c) { c.rope.low_freq_factor = 4; }),
            "model.rope_low_freq_factor = 4 is not between 0 and model.rope_high_freq_factor = 4");
  EXPECT_EQ(said([](ModelConfig& c) { c.rope.original_block_size = 0; }),
            "model.rope_original_block_size = 0: must be at least 1");
}

TEST(ModelConfig, UsualFeedForwardWidths) {
  EXPECT_EQ(usual_ffn_width(768, false), 3072);
  EXPECT_EQ(usual_ffn_width(768, true), 2048);
  EXPECT_EQ(usual_ffn_width(4096, true), 11008);
}

}  // namespace
}  // namespace lockstep::arch
