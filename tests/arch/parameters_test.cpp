#include "arch/parameters.h"

#include <gtest/gtest.h>

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

TEST(Flops, SeedFormula) { EXPECT_EQ(training_flops_per_token(seed_model(), 1024), 623'268'864.0); }

TEST(ModelConfig, AllProblemsAreNamed) {
  ModelConfig config;
  config.heads = config.kv_heads = 5;
  config.dropout = 1;
  config.vocabulary = 0;
  const std::vector<Problem> problems = check(config);
  ASSERT_EQ(problems.size(), 3U);
  EXPECT_NE(problems[1].message.find("does not divide"), std::string::npos);
  EXPECT_TRUE(check(ModelConfig{}).empty());
}

}  // namespace
}  // namespace lockstep::arch
