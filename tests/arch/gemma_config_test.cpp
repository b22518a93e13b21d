// Gemma's config.json: what it has beside Llama's parts.

#include <gtest/gtest.h>

#include "support/published_configs.h"

namespace lockstep::arch::huggingface {
namespace {

using support::published_config, support::read_published, support::published_refusal, support::without;

TEST(GemmaConfig, GemmasHaveTheirParts) {
  for (const char* name : {"gemma-2b", "gemma-2-2b", "gemma-3-1b-it"}) {
    const ModelConfig config = read_published(published_config(name)).config;
    EXPECT_TRUE(config.unit_offset && config.gated) << name;
    EXPECT_EQ(config.activation, ActivationKind::gelu_tanh) << name;
    EXPECT_DOUBLE_EQ(config.embedding_scale * config.embedding_scale, static_cast<double>(config.width)) << name;
    EXPECT_EQ(config.attention_scale, 0) << name << ": the root of the heads' size";
    EXPECT_EQ(to_json(config, family_of(config)).at("model_type").string(), published_config(name).at("model_type").string());
    EXPECT_EQ(read_published(to_json(config, family_of(config))).config, config) << name;
  }
  const ModelConfig second = read_published(published_config("gemma-2-2b")).config,
                    third = read_published(published_config("gemma-3-1b-it")).config;
  EXPECT_EQ(second.window, 4096);
  EXPECT_EQ(second.global_every, 2);
  EXPECT_TRUE(second.attention_softcap == 50 && second.logit_softcap == 30);
  EXPECT_TRUE(second.post_norm && !second.qk_norm && third.post_norm && third.qk_norm);
  EXPECT_EQ(third.window, 512);
  EXPECT_EQ(third.global_every, 6);
  EXPECT_EQ(third.rope, (Rope{.theta = 1e6, .local_theta = 1e4}));
}

TEST(GemmaConfig, GemmaIsReadInBothSpellingsOfItsThetas) {
  Json json = published_config("gemma-3-1b-it");
  const ModelConfig before = read_published(json).config;
  json = without(json, {"rope_theta", "rope_local_base_freq", "rope_scaling"});
  json.set("rope_parameters", Json::parse(R"({"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})"));
  EXPECT_EQ(read_published(json).config, before);
  json.set("rope_parameters", Json::parse(R"({"full_attention": {"rope_type": "linear", "factor": 8.0}})"));
  EXPECT_EQ(read_published(json).config.rope,
            (Rope{.theta = 1e6, .scaling = RopeScaling::linear, .factor = 8, .local_theta = 1e4}));
  json.set("rope_parameters", Json::parse(R"({"sliding_attention": {"rope_type": "linear", "factor": 8.0}})"));
  EXPECT_NE(published_refusal(json).find("a longer context of layers that see a window"), std::string::npos)
      << published_refusal(json);
  json.set("rope_parameters", Json::parse(R"({"full_attention": {}, "sideways": {}})"));
  EXPECT_NE(published_refusal(json).find("sideways"), std::string::npos) << published_refusal(json);
}

TEST(GemmaConfig, GemmasOtherGatesAndDirectionsAreRefused) {
  EXPECT_NE(published_refusal("gemma-3-1b-it", "use_bidirectional_attention", "true").find("\"use_bidirectional_attention\" is "),
            std::string::npos);
  EXPECT_NE(published_refusal("gemma-2-2b", "attention_bias", "true").find("\"attention_bias\" is "), std::string::npos);
  EXPECT_NE(published_refusal("gemma-3-1b-it", "hidden_activation", "\"silu\"").find("a gate other than GELU by tanh"),
            std::string::npos);
  EXPECT_NE(published_refusal("gemma-2b", "hidden_act", "\"silu\"").find("a gate other than GELU by tanh"), std::string::npos);
  EXPECT_NE(published_refusal("gemma-2-2b", "attn_logit_softcapping", "-1").find("attn_logit_softcapping"), std::string::npos);
}

// transformers fails at a null, and where the key is missing has a number that no layer uses.
TEST(GemmaConfig, WithoutWindowsNoNullIsWritten) {
  for (const char* name : {"gemma-2-2b", "gemma-3-1b-it"}) {
    ModelConfig full = read_published(published_config(name)).config;
    full.window = full.global_every = 0;
    full.rope.local_theta = 0;
    const Json json = to_json(full, family_of(full));
    EXPECT_EQ(json.find("sliding_window"), nullptr) << name;
    EXPECT_EQ(read_published(json).config, full) << name;
  }
}

// configuration_gemma2.py, configuration_gemma3.py and modeling_gemma3.py of transformers 5 compute another model.
TEST(GemmaConfig, WhatTransformersPassesOverIsRefused) {
  const auto expect = [](const Json& json, const char* said) {
    EXPECT_NE(published_refusal(json).find(said), std::string::npos) << published_refusal(json);
  };
  const Json third = published_config("gemma-3-1b-it"), second = without(published_config("gemma-2-2b"), {"layer_types"});
  expect(Json(third).set("attn_logit_softcapping", 50.0), "\"attn_logit_softcapping\" of a Gemma 3");
  EXPECT_EQ(published_refusal(Json(third).set("final_logit_softcapping", 30.0)), "");
  expect(Json(second).set("sliding_window_pattern", 3), "\"sliding_window_pattern\" of a Gemma 2 is not 2");
  EXPECT_EQ(published_refusal(Json(second).set("sliding_window_pattern", 2)), "");
  expect(Json(third).set("rope_parameters", Json::parse(R"({"rope_type": "default", "rope_theta": 1000000.0})")),
         "\"rope_parameters\" has neither \"full_attention\" nor \"sliding_attention\"");
  expect(Json(third).set("rope_scaling", Json::parse(R"({"type": "linear", "factor": 8.0})")), "call it \"rope_type\"");
  EXPECT_EQ(published_refusal(Json(third).set("rope_scaling", Json::parse(R"({"rope_type": "linear", "factor": 8.0})"))), "");
  ModelConfig capped = read_published(third).config;
  EXPECT_EQ(family_of(capped), Family::gemma3);
  capped.attention_softcap = 50;
  EXPECT_THROW(family_of(capped), UserError) << "nobody would read it";
}

}  // namespace
}  // namespace lockstep::arch::huggingface
