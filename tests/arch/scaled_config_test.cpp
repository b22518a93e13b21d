// config.json of OLMo 2, of Granite and of LongRoPE.

#include <gtest/gtest.h>

#include <cmath>

#include "arch/rotary.h"
#include "support/published_configs.h"

namespace lockstep::arch::huggingface {
namespace {

using support::read_published, support::published_refusal;

Json sizes(const char* family, const char* more) {
  Json json = Json::parse(R"({"vocab_size": 300, "hidden_size": 48, "intermediate_size": 70, "num_hidden_layers": 2,
                              "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 4096})");
  json.set("model_type", family);
  const Json added = Json::parse(more);
  for (const auto& [key, value] : added.object()) json.set(key, value);
  return json;
}

Json longrope(const char* beside, const char* within) {
  Json json = sizes("phi3", beside);
  Json rope = Json::parse(R"({"type": "longrope", "short_factor": [1, 1.1, 1.2, 1.3], "long_factor": [1, 2, 4, 8]})");
  const Json added = Json::parse(within);
  for (const auto& [key, value] : added.object()) rope.set(key, value);
  return json.set("rope_scaling", rope);
}

void expect_back(const Json& json) {
  const PublishedModel model = read_published(json);
  EXPECT_EQ(family_of(model.config), model.family);
  EXPECT_EQ(read_published(to_json(model.config, model.family)).config, model.config) << json.dump();
}

TEST(ScaledConfig, Olmo2HasNormsBehindAloneAndOverAllHeads) {
  const Json json = sizes("olmo2", R"({"attention_bias": false, "rope_theta": 500000})");
  const ModelConfig config = read_published(json).config;
  EXPECT_TRUE(config.qk_norm && config.qk_norm_whole && config.post_norm && !config.pre_norm && !config.unit_offset);
  EXPECT_EQ(config.norm_eps, 1e-5F);
  expect_back(json);
  EXPECT_NE(published_refusal(sizes("olmo2", R"({"attention_bias": true})")).find("\"attention_bias\""), std::string::npos);
  EXPECT_EQ(published_refusal(sizes("olmo2", R"({"sliding_window": null})")), "");
  EXPECT_NE(published_refusal(sizes("gemma", R"({"sliding_window": 9})")).find("\"sliding_window\""), std::string::npos);
  EXPECT_NE(published_refusal(sizes("olmo2", R"({"sliding_window": 9})")).find("\"sliding_window\""), std::string::npos);
}

TEST(ScaledConfig, GraniteMultiplies) {
  const Json json =
      sizes("granite", R"({"embedding_multiplier": 12, "residual_multiplier": 0.22, "attention_multiplier": 0.0078125,
                                         "logits_scaling": 8, "attention_bias": true, "mlp_bias": true})");
  const ModelConfig config = read_published(json).config;
  EXPECT_EQ(config.embedding_scale, 12);
  EXPECT_EQ(config.residual_scale, 0.22);
  EXPECT_EQ(config.attention_scale, 0.0078125);
  EXPECT_EQ(config.logit_scale, 0.125);
  EXPECT_TRUE(config.bias);
  expect_back(json);
  EXPECT_EQ(read_published(sizes("granite", "{}")).config.attention_scale, 1) << "transformers' own";
  EXPECT_NE(published_refusal(sizes("granite", R"({"logits_scaling": 0})")).find("\"logits_scaling\""), std::string::npos);
  EXPECT_NE(published_refusal(sizes("llama", R"({"logits_scaling": 8})")).find("\"logits_scaling\" is 8"), std::string::npos);
}

TEST(ScaledConfig, LongRopeTakesItsFactorsByTheContext) {
  const Json json = longrope(R"({"original_max_position_embeddings": 512})", "{}");
  ModelConfig config = read_published(json).config;
  EXPECT_EQ(config.rope.scaling, RopeScaling::longrope);
  EXPECT_EQ(config.rope.factor, 8);
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, std::sqrt(1 + std::log(8) / std::log(512)));
  expect_back(json);
  const std::vector<float> far = rotary_frequencies(config);
  config.block_size = 512;
  const std::vector<float> near = rotary_frequencies(config);
  for (std::size_t i = 0; i < near.size(); ++i) {
    const double plain = std::pow(10000.0, -static_cast<double>(i) / 4);
    EXPECT_FLOAT_EQ(near[i], static_cast<float>(plain / config.rope.short_factors[i]));
    EXPECT_FLOAT_EQ(far[i], static_cast<float>(plain / config.rope.long_factors[i]));
  }
  // A shorter context goes out with the length that queries and keys have.
  const Json out = to_json(config, Family::phi3);
  EXPECT_DOUBLE_EQ(out.at("rope_scaling").at("attention_factor").number(), config.rope.attention_factor);
  EXPECT_EQ(read_published(out).config, config);
}

TEST(ScaledConfig, LongRopeHasTwoSpellings) {
  const char* const original = R"({"original_max_position_embeddings": 512})";
  const ModelConfig before = read_published(longrope(original, "{}")).config;
  EXPECT_EQ(read_published(longrope(original, R"({"type": null, "rope_type": "longrope"})")).config, before);
  EXPECT_EQ(read_published(longrope(original, R"({"type": "su"})")).config, before);
  Json json = longrope(original,
                       R"({"rope_theta": 10000, "original_max_position_embeddings": 512, "attention_factor": 1.5, "factor": 3})");
  json.set("rope_parameters", json.at("rope_scaling")).set("rope_scaling", nullptr);
  const Rope rope = read_published(json).config.rope;
  EXPECT_EQ(rope.attention_factor, 1.5);
  EXPECT_EQ(rope.factor, 3);
  EXPECT_EQ(read_published(longrope(R"({"original_max_position_embeddings": 8192})", "{}")).config.rope.attention_factor, 1);
}

// transformers scales any family's rotary positions so, and only Phi-3 has no biases.
TEST(ScaledConfig, LongRopeIsOfFamiliesWithBiasesToo) {
  const Json biases(Json::Object{{"attention_bias", true}, {"mlp_bias", true}});
  for (const auto& [family, more] : {std::pair("llama", biases),
                                     {"granite", biases},
                                     {"smollm3", biases},
                                     {"smollm3", Json(Json::Object{})},
                                     {"qwen2", Json(Json::Object{})},
                                     {"llama", Json(Json::Object{})},
                                     {"mistral", Json(Json::Object{})}}) {
    Json json = longrope(R"({"num_hidden_layers": 5})", R"({"original_max_position_embeddings": 512})").set("model_type", family);
    for (const auto& [key, value] : more.object()) json.set(key, value);
    EXPECT_EQ(published_refusal(json), "") << family;
    if (published_refusal(json).empty()) expect_back(json);
  }
}

// modeling_phi3.py asks "sliding_window" alone.
TEST(ScaledConfig, LayersOfAPhi3AreAlike) {
  const Json windowed = sizes("phi3", R"({"sliding_window": 5, "layer_types": ["sliding_attention", "sliding_attention"]})");
  EXPECT_EQ(read_published(windowed).config.window, 5);
  const Json full = sizes("phi3", R"({"layer_types": ["full_attention", "full_attention"]})");
  EXPECT_EQ(read_published(full).config.window, 0);
  EXPECT_NE(published_refusal(Json(full).set("sliding_window", 5)).find("\"layer_types\" of a Phi-3"), std::string::npos);
}

TEST(ScaledConfig, WhatLongRopeLacksIsRefused) {
  const char* const original = R"({"original_max_position_embeddings": 512})";
  const auto refused = [&](const char* within) { return published_refusal(longrope(original, within)); };
  EXPECT_NE(refused(R"({"short_factor": null})").find("\"rope_scaling.short_factor\" is missing"), std::string::npos);
  EXPECT_NE(refused(R"({"long_factor": [1, "x"]})").find("rope_scaling.long_factor"), std::string::npos);
  EXPECT_NE(refused(R"({"long_factor": [1, 2]})").find("longrope needs one above 0 for each pair"), std::string::npos);
  EXPECT_NE(refused(R"({"short_mscale": 1.2})").find("short_mscale"), std::string::npos);
  EXPECT_NE(published_refusal(longrope("{}", "{}")).find("original_max_position_embeddings\" is missing"), std::string::npos);
  // transformers' Phi-3 has 4096 then, whatever is within (modeling_rope_utils.py, standardize_rope_params).
  EXPECT_NE(
      published_refusal(longrope("{}", original)).find("\"original_max_position_embeddings\" is missing beside the scaling"),
      std::string::npos);
  EXPECT_NE(
      refused(R"({"type": "yarn", "factor": 2, "short_factor": null, "long_factor": null})").find("other than by \"longrope\""),
      std::string::npos);
}

}  // namespace
}  // namespace lockstep::arch::huggingface
