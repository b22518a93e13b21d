#include "arch/config_json.h"

#include <gtest/gtest.h>

namespace lockstep::arch {
namespace {

TEST(ConfigJson, ComesBackEqual) {
  ModelConfig config;
  config.layers = 3;
  config.bias = true;
  config.tied = false;
  config.dropout = 0.1F;
  config.activation = arch::ActivationKind::gelu_tanh;
  config.init = InitKind::pytorch;
  EXPECT_EQ(model_from_json(Json::parse(to_json(config).dump()), "a test"), config);
}

TEST(ConfigJson, ALlamaComesBackEqual) {
  ModelConfig config;
  config.heads = 8;
  config.kv_heads = 2;
  config.head_size = 80;
  config.norm = NormKind::rmsnorm;
  config.norm_eps = 1e-6F;
  config.position = PositionKind::rope;
  config.rope.theta = 500000;
  config.activation = arch::ActivationKind::silu;
  config.gated = true;
  EXPECT_EQ(model_from_json(Json::parse(to_json(config).dump()), "a test"), config);
  config.rope = {500000, RopeScaling::llama3, 32, 1, 4, 4096};
  EXPECT_EQ(model_from_json(Json::parse(to_json(config).dump()), "a test"), config);
}

TEST(ConfigJson, RefusesWhatItDoesNotKnow) {
  Json json = to_json(ModelConfig{});
  json.set("norm", "batchnorm");
  EXPECT_THROW(model_from_json(json, "a test"), UserError);
  json = to_json(ModelConfig{});
  json.set("n_head", 5);
  EXPECT_THROW(model_from_json(json, "a test"), UserError);
  EXPECT_THROW(model_from_json(Json::parse("{}"), "a test"), UserError);
  ModelConfig rotary;
  rotary.position = PositionKind::rope;
  json = to_json(rotary);
  json.set("rope", Json::parse(R"({"theta": 10000, "scaling": "yarn"})"));
  EXPECT_THROW(model_from_json(json, "a test"), UserError);
}

}  // namespace
}  // namespace lockstep::arch
