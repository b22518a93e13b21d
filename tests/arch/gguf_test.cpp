// Published models by the names of llama.cpp.

#include "arch/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "arch/huggingface/config_json.h"

namespace lockstep::arch::gguf {
namespace {

namespace names = arch::huggingface;

ModelConfig gpt2() {
  ModelConfig config;
  config.layers = 11;
  config.vocabulary = 47;
  config.activation = ActivationKind::gelu_tanh;
  config.bias = config.qkv_bias = true;
  return config;
}
ModelConfig llama() {
  ModelConfig config;
  config.layers = 2;
  config.heads = 6;
  config.kv_heads = 2;
  config.width = 24;
  config.head_size = 10;
  config.ffn_width = 40;
  config.vocabulary = 47;
  config.norm = NormKind::rmsnorm;
  config.norm_eps = 1e-6F;
  config.position = PositionKind::rope;
  config.rope.theta = 500000;
  config.activation = ActivationKind::silu;
  config.gated = true;
  config.tied = false;
  return config;
}
ModelConfig qwen2() {
  ModelConfig config = llama();
  config.head_size = 4;
  config.qkv_bias = config.tied = true;
  return config;
}

ModelConfig qwen3() {
  ModelConfig config = llama();
  config.qk_norm = true;
  return config;
}
ModelConfig smollm3() {
  ModelConfig config = llama();
  config.rope.skip_every = 4;
  return config;
}
ModelConfig phi3() {
  ModelConfig config = llama();
  config.head_size = 4;
  config.window = 30;
  config.family = "phi3";
  return config;
}

ModelConfig gemma() {
  ModelConfig config = llama();
  config.activation = ActivationKind::gelu_tanh;
  config.tied = config.unit_offset = true;
  config.embedding_scale = std::sqrt(24.0);
  return config;
}
ModelConfig gemma2() {
  ModelConfig config = gemma();
  config.post_norm = true;
  config.window = 30;
  config.global_every = 2;
  config.attention_softcap = 50;
  config.logit_softcap = 30;
  return config;
}
ModelConfig gemma3() {
  ModelConfig config = gemma();
  config.post_norm = config.qk_norm = true;
  config.window = 30;
  config.global_every = 6;
  config.layers = 7;
  config.rope.local_theta = 10000;
  return config;
}

ModelConfig olmo2() {
  ModelConfig config = llama();
  config.qk_norm = config.qk_norm_whole = config.post_norm = true;
  config.pre_norm = false;
  config.head_size = config.width / config.heads;
  return config;
}
ModelConfig granite() {
  ModelConfig config = llama();
  config.embedding_scale = 12;
  config.residual_scale = 0.25;
  config.attention_scale = 0.5;
  config.logit_scale = 0.125;
  return config;
}

Json pairs_of(const ModelConfig& config) { return gguf::pairs_of(config, names::to_json(config, names::family_of(config))); }
TensorFacts facts_of(const ModelConfig& config) {
  return {.vocabulary = config.vocabulary, .head = !config.tied, .biases = config.bias, .rope_factors = rope_factors(config)};
}
std::string refusal(const Json& pairs, const TensorFacts& facts) {
  try {
    config_of(pairs, facts, "some.gguf");
  } catch (const UserError& error) {
    EXPECT_TRUE(error.problems().front().message.starts_with("some.gguf: "));
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.what();
  }
  return "no error";
}
#define EXPECT_SAYS(part, text) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text)

TEST(GgufNames, EveryTensorOfAFamilyHasOneAndComesBack) {
  for (const ModelConfig& config :
       {gpt2(), llama(), qwen2(), qwen3(), smollm3(), phi3(), gemma(), gemma2(), gemma3(), olmo2(), granite()}) {
    const names::Family family = names::family_of(config);
    const Architecture& architecture = architecture_of_config(names::to_json(config, family), "it");
    const names::TensorTable table = names::tensor_table(config, family);
    std::size_t paired = 0;
    for (const names::Parameter& parameter : table.parameters) {
      for (const names::Part& part : parameter.parts) {
        const auto there = architecture.gguf_name(part.name);
        ASSERT_TRUE(there) << part.name;
        const auto back = architecture.huggingface_name(there->name);
        ASSERT_TRUE(back) << there->name;
        EXPECT_EQ(back->name, part.name);
        EXPECT_EQ(back->paired, there->paired);
        EXPECT_EQ(there->added, config.unit_offset && part.shape.rank() == 1 ? 1 : 0) << part.name;
        if (there->paired) ++paired;
      }
    }
    EXPECT_EQ(paired, architecture.paired ? 4U : 0U) << "q and k of each layer";
  }
}

TEST(GgufNames, AreThoseOfGgufPy) {
  const Architecture& gpt2 = architecture_of_config(Json::Object{{"model_type", "gpt2"}}, "it");
  EXPECT_EQ(gpt2.gguf_name("transformer.h.10.mlp.c_proj.bias")->name, "blk.10.ffn_down.bias");
  EXPECT_EQ(gpt2.gguf_name("transformer.wpe.weight")->name, "position_embd.weight");
  const Architecture& llama = architecture_of_pairs(Json::Object{{"general.architecture", "llama"}}, "it");
  EXPECT_EQ(llama.gguf_name("model.layers.3.self_attn.k_proj.weight")->name, "blk.3.attn_k.weight");
  EXPECT_TRUE(llama.huggingface_name("blk.3.attn_q.bias")->paired);
  for (const char* name :
       {"blk.x.attn_q.weight", "blk..attn_q.weight", "blk.1.attn_q", "blk.1.attn_q.scale", "attn_q.weight", ""})
    EXPECT_FALSE(llama.huggingface_name(name)) << name;
}

TEST(GgufKeys, GiveBackTheModel) {
  std::vector<ModelConfig> configs = {gpt2(), llama(), qwen2(),  llama(),  llama(), llama(),   qwen3(), smollm3(),
                                      phi3(), gemma(), gemma2(), gemma3(), olmo2(), granite(), llama(), qwen3()};
  configs[3].bias = configs[3].qkv_bias = true;
  configs[4].rope.scaling = configs[5].rope.scaling = RopeScaling::llama3;
  configs[5].rope.theta = 100;
  configs[5].rope.factor = 3;
  configs[5].rope.original_block_size = 32;
  configs[14].rope.scaling = RopeScaling::linear;
  configs[14].rope.factor = 2.5;
  configs[15].rope = {.scaling = RopeScaling::yarn,
                      .factor = 4,
                      .low_freq_factor = 1,
                      .high_freq_factor = 32,
                      .original_block_size = 256,
                      .attention_factor = usual_attention_factor(4)};
  for (const ModelConfig& config : configs) {
    const Json json = config_of(pairs_of(config), facts_of(config), "some.gguf");
    EXPECT_EQ(names::model_from_json(json, "some.gguf").config, config) << json.dump();
  }
}

TEST(GgufKeys, AreThoseOfGgufPy) {
  EXPECT_EQ(pairs_of(llama()).dump(),
            R"({"general.architecture":"llama","llama.context_length":1024,"llama.embedding_length":24,)"
            R"("llama.feed_forward_length":40,"llama.block_count":2,"llama.attention.head_count":6,)"
            R"("llama.attention.head_count_kv":2,"llama.attention.key_length":10,"llama.attention.value_length":10,)"
            R"("llama.attention.layer_norm_rms_epsilon":1e-06,"llama.rope.dimension_count":10,"llama.rope.freq_base":500000.0,)"
            R"("llama.vocab_size":47})");
  EXPECT_EQ(pairs_of(gpt2()).at("gpt2.feed_forward_length").integer(), 3072) << "it goes without saying in config.json";
}

// Half of the keys that are not said have a usual value; tokens are taken along.
TEST(GgufKeys, NeedNotSayEverything) {
  Json pairs(Json::Object{{"general.architecture", "llama"}, {"tokenizer.ggml.eos_token_id", 3}, {"llama.expert_count", 0}});
  const Json all = pairs_of(llama());
  for (const auto& [key, value] : all.object()) {
    if (key.find("length") != std::string::npos || key.find("block") != std::string::npos || key.ends_with("epsilon") ||
        key.ends_with("head_count"))
      pairs.set(key, value);
  }
  const Json json = config_of(pairs, facts_of(llama()), "some.gguf");
  const ModelConfig config = names::model_from_json(json, "some.gguf").config;
  EXPECT_EQ(config.kv_heads, 6);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_EQ(json.at("eos_token_id").integer(), 3);
  Json talks = pairs_of(llama());
  talks.set("tokenizer.ggml.eos_token_id", 3).set("tokenizer.ggml.eom_token_id", 5).set("tokenizer.ggml.eot_token_id", 4);
  EXPECT_EQ(config_of(talks, facts_of(llama()), "it").at("eos_token_id").dump(), "[3,4,5]");
}

TEST(GgufKeys, ThatAreMissingOrNotKnownAreRefused) {
  const TensorFacts facts = facts_of(llama());
  EXPECT_SAYS("\"general.architecture\" is missing", refusal(Json::Object{}, facts));
  EXPECT_SAYS("the architecture \"mamba\" is not one", refusal(Json::Object{{"general.architecture", "mamba"}}, facts));
  EXPECT_SAYS("\"llama.block_count\" is missing", refusal(Json::Object{{"general.architecture", "llama"}}, facts));
  const auto with = [&](const char* key, Json value) {
    Json pairs = pairs_of(llama());
    pairs.set(key, std::move(value));
    return refusal(pairs, facts);
  };
  EXPECT_EQ("no error", with("general.name", "it"));
  EXPECT_SAYS("\"llama.embedding_length\" is \"24\", but must be a number", with("llama.embedding_length", "24"));
  EXPECT_SAYS("\"llama.attention.head_count_kv\" is [2,3]", with("llama.attention.head_count_kv", Json::Array{2, 3}));
  EXPECT_SAYS("\"llama.attention.head_count_kv\" is [2,2,2,2,2,2,2,2,2]",
              with("llama.attention.head_count_kv", Json(Json::Array(9, 2))));
  EXPECT_EQ("no error", with("llama.attention.head_count_kv", Json(Json::Array(static_cast<std::size_t>(llama().layers), 2))));
  EXPECT_SAYS("\"llama.rope.dimension_count\" is 6 where 10 is needed", with("llama.rope.dimension_count", 6));
  EXPECT_SAYS("\"llama.expert_count\" is 8: this key is not known", with("llama.expert_count", 8));
  EXPECT_EQ("no error", with("llama.attention.causal", true));
  EXPECT_SAYS("\"llama.attention.causal\" is false: this key is not known", with("llama.attention.causal", false));
  EXPECT_EQ("no error", with("llama.rope.scaling.type", "none"));
  EXPECT_SAYS("\"llama.rope.scaling.type\" is \"yarn\" with a factor of 0.5",
              refusal(pairs_of(llama()).set("llama.rope.scaling.type", "yarn").set("llama.rope.scaling.factor", 0.5), facts));
  EXPECT_SAYS("\"llama.rope.scaling.factor\" is \"8\"", with("llama.rope.scaling.factor", "8"));
  EXPECT_SAYS("\"llama.rope.scaling.attn_factor\" is 1.5", with("llama.rope.scaling.attn_factor", 1.5));
  EXPECT_SAYS("\"llama.rope.scaling.attn_factor\" is 1.5",
              refusal(pairs_of(llama()).set("llama.rope.scaling.factor", 2).set("llama.rope.scaling.attn_factor", 1.5), facts));
  EXPECT_SAYS("\"llama.rope.scaling.type\" is \"longrope\"", with("llama.rope.scaling.type", "longrope"));
  const Json yarn = pairs_of(llama()).set("llama.rope.scaling.type", "yarn").set("llama.rope.scaling.factor", 4);
  EXPECT_EQ("no error", refusal(Json(yarn).set("llama.rope.scaling.yarn_beta_fast", 32.0), facts));
  EXPECT_SAYS("\"llama.rope.scaling.yarn_beta_fast\" is 16",
              refusal(Json(yarn).set("llama.rope.scaling.yarn_beta_fast", 16), facts));
  EXPECT_SAYS("\"llama.rope.scaling.yarn_beta_slow\" is 0.5",
              refusal(Json(yarn).set("llama.rope.scaling.yarn_beta_slow", 0.5), facts));
  TensorFacts strange = facts;
  strange.rope_factors = {1, 2, 7, 8, 8};
  EXPECT_SAYS("the factors in \"rope_freqs.weight\" are not those of Llama 3.1", refusal(pairs_of(llama()), strange));
  EXPECT_SAYS("two scalings of rotary positions", refusal(pairs_of(llama()).set("llama.rope.scaling.factor", 2), strange));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_SAYS("the factors in", refusal(pairs_of(llama()).set("llama.rope.freq_base", infinity), strange));
  strange.rope_factors.back() = static_cast<float>(infinity);
  EXPECT_SAYS("the factors in", refusal(pairs_of(llama()), strange));
}

ModelConfig model_of(const Json& pairs, const ModelConfig& like) {
  return names::model_from_json(config_of(pairs, facts_of(like), "some.gguf"), "some.gguf").config;
}

// As llama.cpp takes them (llama-model.cpp, load_hparams): an earlier name, and no type.
TEST(GgufKeys, OfAFactorWithoutATypeAreLinear) {
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    const Rope rope = model_of(pairs_of(llama()).set(key, 4).set("llama.rope.scaling.finetuned", true), llama()).rope;
    EXPECT_EQ(rope.scaling, RopeScaling::linear) << key;
    EXPECT_EQ(rope.factor, 4) << key;
    EXPECT_EQ(model_of(pairs_of(llama()).set(key, 4).set("llama.rope.scaling.type", "none"), llama()), llama()) << key;
  }
  EXPECT_EQ(model_of(pairs_of(llama()).set("llama.rope.scaling.factor", 0), llama()), llama());
}

Json without(const Json& pairs, std::string_view key) {
  Json rest(Json::Object{});
  for (const auto& [name, value] : pairs.object()) {
    if (name != key) rest.set(name, value);
  }
  return rest;
}

// llama.cpp's usual base is one for all; transformers' is another for these.
TEST(GgufKeys, WithoutABaseMeanTenThousand) {
  for (const ModelConfig& config : {smollm3(), gemma3()}) {
    const Json pairs = pairs_of(config);
    const std::string name = pairs.at("general.architecture").string();
    EXPECT_EQ(model_of(without(pairs, name + ".rope.freq_base"), config).rope.theta, 10000) << name;
  }
}

// granite.cpp and gemma3.cpp have their own ways with these keys.
TEST(GgufKeys, OfRotationThatTwoArchitecturesTakeOtherwiseAreRefused) {
  const auto said = [](const ModelConfig& config, const char* key, const Json& value) {
    return refusal(pairs_of(config).set(key, value), facts_of(config));
  };
  EXPECT_SAYS("\"granite.rope.scaling.finetuned\" is false, but must be true",
              said(granite(), "granite.rope.scaling.finetuned", false));
  EXPECT_EQ("no error", said(granite(), "granite.rope.scaling.finetuned", true));
  EXPECT_EQ("no error", said(llama(), "llama.rope.scaling.finetuned", false));
  EXPECT_SAYS("\"gemma3.rope.scaling.attn_factor\" is 1.5, but must be 1",
              said(gemma3(), "gemma3.rope.scaling.attn_factor", 1.5));
  EXPECT_EQ("no error", said(gemma3(), "gemma3.rope.scaling.attn_factor", 1.0));
}

// transformers has 128 and 256 for some families.
TEST(GgufKeys, WithoutASizeOfHeadsMeanAShareOfTheWidth) {
  for (ModelConfig config : {llama(), qwen3(), gemma2(), gemma3()}) {
    config.head_size = config.width / config.heads;
    config.attention_scale = 0;
    Json pairs = pairs_of(config);
    const std::string name = pairs.at("general.architecture").string();
    for (const char* key : {".attention.key_length", ".attention.value_length", ".rope.dimension_count"})
      pairs = without(pairs, name + key);
    EXPECT_EQ(model_of(pairs, config), config) << name;
    EXPECT_THROW(model_of(pairs.set(name + ".attention.head_count", 0), config), UserError) << name;
  }
}

// gemma3.cpp and phi3.cpp, load_arch_hparams. The published Phi-4 says 0.
TEST(GgufKeys, WithoutAWindowMeanNone) {
  ModelConfig full = gemma3();
  full.window = full.global_every = 0;
  full.rope.local_theta = 0;
  EXPECT_EQ(model_of(pairs_of(full), full), full);
  EXPECT_EQ(model_of(pairs_of(full).set("gemma3.attention.sliding_window", 0), full), full);
  EXPECT_EQ(model_of(pairs_of(full).set("gemma3.final_logit_softcapping", 0), full), full);
  EXPECT_EQ(model_of(pairs_of(phi3()).set("phi3.attention.sliding_window", 0), phi3()).window, 0);
  EXPECT_EQ(model_of(without(pairs_of(gemma2()), "gemma2.attention.sliding_window"), gemma2()).window, 4096);
}

TEST(GgufKeys, AreNotWrittenForWhatLlamaCppDoesNotCompute) {
  ModelConfig config = gpt2();
  config.activation = ActivationKind::relu;
  EXPECT_THROW(pairs_of(config), UserError);
  config.activation = ActivationKind::gelu;
  EXPECT_NO_THROW(pairs_of(config));
  ModelConfig smol = smollm3();
  smol.rope.skip_every = 3;
  EXPECT_THROW(pairs_of(smol), UserError);
  for (ModelConfig narrow : {olmo2(), qwen2(), phi3()}) {
    EXPECT_NO_THROW(pairs_of(narrow));
    narrow.head_size -= 2;
    EXPECT_THROW(pairs_of(narrow), UserError);
  }
  ModelConfig stretched = llama();
  stretched.rope.scaling = RopeScaling::dynamic;
  EXPECT_THROW(rope_factors(stretched), UserError);
  stretched.rope = {.scaling = RopeScaling::yarn, .low_freq_factor = 1, .high_freq_factor = 32};
  EXPECT_NO_THROW(pairs_of(stretched));
  stretched.rope.high_freq_factor = 16;
  EXPECT_THROW(pairs_of(stretched), UserError);
}

// llama.cpp has these by the architecture (src/models/gemma2.cpp, gemma3.cpp), so that the file could not say otherwise.
TEST(GgufKeys, AreNotWrittenForAnotherGemma) {
  const auto said = [](ModelConfig config, const auto& change) {
    change(config);
    try {
      pairs_of(config);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto expect = [&](const ModelConfig& config, const char* part, const auto& change) {
    EXPECT_EQ(said(config, [](ModelConfig&) {}), "");
    EXPECT_SAYS(part, said(config, change));
  };
  expect(gemma(), "model.tied=true", [](ModelConfig& c) { c.tied = false; });
  expect(gemma2(), "model.global_every=2", [](ModelConfig& c) { c.global_every = 3; });
  expect(gemma2(), "model.window", [](ModelConfig& c) { c.window = c.global_every = 0; });
  expect(gemma2(), "a cap of scores", [](ModelConfig& c) { c.attention_softcap = 0; });
  expect(gemma2(), "a cap of logits", [](ModelConfig& c) { c.logit_softcap = 0; });
  expect(gemma2(), "the root of 10", [](ModelConfig& c) { c.attention_scale = 0.5; });
  expect(gemma3(), "model.global_every=6", [](ModelConfig& c) { c.global_every = 0; });
  expect(gemma3(), "model.rope_scaling=none", [](ModelConfig& c) { c.rope.scaling = RopeScaling::linear; });
  EXPECT_EQ(said(gemma3(), [](ModelConfig& c) { c.tied = false; }), "");
  // Those of 27B divide by the width of a head in the residual stream.
  ModelConfig largest = gemma2();
  largest.layers = 46;
  EXPECT_SAYS("the root of 4", said(largest, [](ModelConfig&) {}));
  largest.attention_scale = 0.5;
  EXPECT_EQ(names::model_from_json(config_of(pairs_of(largest), facts_of(largest), "it"), "it").config, largest);
}

// What a family may say beside the table is not lost in silence.
TEST(GgufKeys, AreNotWrittenWithoutWhatTheyCannotSay) {
  Json json = names::to_json(llama(), names::Family::llama);
  json.set("sliding_window", nullptr);
  EXPECT_NO_THROW(gguf::pairs_of(llama(), json));
  json.set("sliding_window", 4096);
  try {
    gguf::pairs_of(llama(), json);
    ADD_FAILURE() << "it was written";
  } catch (const UserError& error) {
    EXPECT_SAYS("architecture \"llama\" cannot say \"sliding_window\": 4096", error.what());
  }
}

}  // namespace
}  // namespace lockstep::arch::gguf
