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
  config.activation = ops::Activation::gelu_tanh;
  config.init = InitKind::pytorch;
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
}

}  // namespace
}  // namespace lockstep::arch
