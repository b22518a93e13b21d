// config.json of published models: each key is obeyed, changes nothing, or is refused by its name.

#include <gtest/gtest.h>

#include "support/published_configs.h"

namespace lockstep::arch::huggingface {
namespace {

using support::published_refusal;
PublishedModel read(const Json& json) { return support::read_published(json); }
Json config_of(const std::string& name) { return support::published_config(name); }
void expect_named(const std::string& name, const std::string& key, const std::string& value) {
  EXPECT_NE(published_refusal(name, key, value).find("\"" + key + "\" is "), std::string::npos)
      << key << " " << value << published_refusal(name, key, value);
}

TEST(PublishedConfig, IsReadAsItWasPublished) {
  struct Shape {
    const char* name;
    std::int64_t layers, width, heads, kv_heads, ffn, block;
    bool tied;
  };
  for (const Shape& shape : std::vector<Shape>{{"gpt2", 12, 768, 12, 12, 3072, 1024, true},
                                               {"gpt2-medium", 24, 1024, 16, 16, 4096, 1024, true},
                                               {"gpt2-xl", 48, 1600, 25, 25, 6400, 1024, true},
                                               {"Llama-3.1-8B-Instruct", 32, 4096, 32, 8, 14336, 131072, false},
                                               {"TinyLlama-1.1B", 22, 2048, 32, 4, 5632, 2048, false},
                                               {"SmolLM2-135M", 30, 576, 9, 3, 1536, 8192, true},
                                               {"Qwen2.5-0.5B", 24, 896, 14, 2, 4864, 32768, true},
                                               {"Qwen3-0.6B", 28, 1024, 16, 8, 3072, 40960, true},
                                               {"Mistral-7B-v0.1", 32, 4096, 32, 8, 14336, 32768, false},
                                               {"Phi-3-mini-4k-instruct", 32, 3072, 32, 32, 8192, 4096, false},
                                               {"SmolLM3-3B", 8, 2048, 16, 4, 11008, 65536, true},
                                               {"gemma-2b", 18, 2048, 8, 1, 16384, 8192, true},
                                               {"gemma-2-2b", 26, 2304, 8, 4, 9216, 8192, true},
                                               {"gemma-3-1b-it", 26, 1152, 4, 1, 6912, 32768, true}}) {
    const ModelConfig config = read(config_of(shape.name)).config;
    EXPECT_EQ(config.layers, shape.layers) << shape.name;
    EXPECT_EQ(config.width, shape.width) << shape.name;
    EXPECT_EQ(config.heads, shape.heads) << shape.name;
    EXPECT_EQ(config.kv_heads, shape.kv_heads) << shape.name;
    EXPECT_EQ(config.ffn_width, shape.ffn) << shape.name;
    EXPECT_EQ(config.block_size, shape.block) << shape.name;
    EXPECT_EQ(config.tied, shape.tied) << shape.name;
  }
  const Rope rope = read(config_of("Llama-3.1-8B-Instruct")).config.rope;
  EXPECT_EQ(rope.theta, 500000);
  EXPECT_EQ(rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(rope.original_block_size, 8192);
}

TEST(PublishedConfig, PartsOfFamiliesAreReadAndWrittenAgain) {
  const ModelConfig qwen = read(config_of("Qwen3-0.6B")).config, mistral = read(config_of("Mistral-7B-v0.1")).config;
  EXPECT_TRUE(qwen.qk_norm);
  EXPECT_EQ(qwen.head_size, 128);
  EXPECT_EQ(qwen.window, 0);
  EXPECT_EQ(mistral.window, 4096);
  const ModelConfig phi = read(config_of("Phi-3-mini-4k-instruct")).config, smol = read(config_of("SmolLM3-3B")).config;
  EXPECT_EQ(phi.window, 2047);
  EXPECT_EQ(phi.family, "phi3");
  EXPECT_EQ(smol.rope.skip_every, 4);
  EXPECT_FALSE(turns(smol, 3));
  EXPECT_TRUE(turns(smol, 4));
  for (const auto& [name, text] : support::published_configs) {
    const PublishedModel model = read(Json::parse(text));
    EXPECT_EQ(family_of(model.config), model.family) << name;
    EXPECT_EQ(read(to_json(model.config, model.family)).config, model.config) << name;
  }
}

// transformers' classes go on with a window where config.json does not say that there is none.
TEST(PublishedConfig, WindowsAreThoseOfTransformers) {
  Json mistral = config_of("Mistral-7B-v0.1");
  EXPECT_EQ(read(mistral.set("sliding_window", nullptr)).config.window, 0);
  EXPECT_EQ(read(mistral).config.family, "mistral");
  Json without = Json::parse(R"({"model_type": "mistral", "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 5,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 9, "max_position_embeddings": 16})");
  EXPECT_EQ(read(without).config.window, 4096);
  Json qwen = config_of("Qwen3-0.6B");
  qwen.set("use_sliding_window", true).set("sliding_window", 64);
  EXPECT_EQ(read(qwen).config.window, 0);  // from layer 28 on, of 28
  EXPECT_EQ(read(qwen.set("max_window_layers", 0)).config.window, 64);
  for (const Json& wrong : {Json(-1), Json(2.5), Json(Json::Array{3})})
    EXPECT_NE(published_refusal(qwen.set("max_window_layers", wrong)).find("\"max_window_layers\" is "), std::string::npos);
  EXPECT_NE(published_refusal(qwen.set("max_window_layers", 3)).find("not all, nor all but every n-th"), std::string::npos);
  Json::Array types;
  for (int layer = 0; layer < 28; ++layer) types.emplace_back(layer % 4 == 3 ? "full_attention" : "sliding_attention");
  const ModelConfig mixed = read(qwen.set("layer_types", types)).config;
  EXPECT_EQ(mixed.window, 64);
  EXPECT_EQ(mixed.global_every, 4);
  EXPECT_EQ(seen_keys(mixed, 3, 100), 100);
  EXPECT_EQ(seen_keys(mixed, 4, 100), 64);
  EXPECT_EQ(read(to_json(mixed, Family::qwen3)).config, mixed);
}

TEST(PublishedConfig, LayersThatTurnNothingAreEveryNth) {
  Json smol = config_of("SmolLM3-3B");
  EXPECT_EQ(read(smol.set("no_rope_layers", nullptr)).config.rope.skip_every, 4);
  EXPECT_EQ(read(smol.set("no_rope_layers", Json::Array(8, 1))).config.rope.skip_every, 0);
  EXPECT_NE(published_refusal(smol.set("no_rope_layers", Json::parse("[1, 0, 1, 1, 1, 1, 1, 1]"))).find("not every n-th one"),
            std::string::npos);
  EXPECT_NE(published_refusal(smol.set("no_rope_layers", Json::parse("[1, 0]"))).find("names 2 layers of 8"), std::string::npos);
}

TEST(PublishedConfig, AFamilyWithoutAPartIsRefused) {
  ModelConfig config = read(config_of("Qwen3-0.6B")).config;
  config.family = "llama";
  EXPECT_THROW(family_of(config), UserError);
  config.family = "nobody";
  EXPECT_THROW(family_of(config), UserError);
  config.family.clear();
  config.rope.skip_every = 4;
  EXPECT_THROW(family_of(config), UserError);
}

// transformers 5 saves what 4 did in other words.
TEST(PublishedConfig, IsTheSameInTheWordsOfTransformers5) {
  Json json = config_of("Llama-3.1-8B-Instruct");
  const PublishedModel before = read(json);
  Json rope = json.at("rope_scaling");
  rope.set("rope_theta", json.at("rope_theta"));
  for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) json.set(key, nullptr);
  json.set("rope_parameters", rope).set("dtype", "bfloat16").set("head_dim", 128).set("pad_token_id", nullptr);
  EXPECT_EQ(read(json).config, before.config);
  Json qwen = config_of("Qwen2.5-0.5B");
  const PublishedModel qwen_before = read(qwen);
  Json::Array types(24, "full_attention");
  qwen.set("rope_theta", nullptr).set("layer_types", types).set("sliding_window", nullptr);
  qwen.set("rope_parameters", Json::Object{{"rope_theta", 1e6}, {"rope_type", "default"}});
  EXPECT_EQ(read(qwen).config, qwen_before.config);
  types.pop_back();
  EXPECT_NE(published_refusal(qwen.set("layer_types", types)).find("\"layer_types\" names 23 layers of 24"), std::string::npos);
}

TEST(PublishedConfig, AnUnknownKeyIsRefusedUnlessItIsNullOrFalse) {
  for (const auto& [name, text] : support::published_configs) {
    for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "embedding_multiplier", "residual_multiplier",
                            "qk_layernorm", "use_qk_norm", "no_rope_layers", "text_config", "num_experts", "multi_query"}) {
      if (name.starts_with("SmolLM3") && std::string_view(key) == "no_rope_layers") continue;
      if (name != "gemma-2b" && name.starts_with("gemma") && std::string_view(key).ends_with("softcapping")) continue;
      for (const char* value : {"30.0", "true", "\"x\"", "[1]", "{\"a\": 1}", "0", "-1"}) expect_named(name, key, value);
      for (const char* value : {"null", "false"}) EXPECT_EQ(published_refusal(name, key, value), "") << name << " " << key;
    }
  }
  Json json = config_of("gpt2");
  for (int i = 0; i < 50; ++i) json.set("key" + std::to_string(i), i);
  EXPECT_NE(published_refusal(json).find("\"key19\" is 19: this key is not known"), std::string::npos) << published_refusal(json);
  EXPECT_NE(published_refusal(json).find("30 more keys are not known"), std::string::npos) << published_refusal(json);
  EXPECT_EQ(published_refusal(json).find("\"key20\""), std::string::npos);
}

TEST(PublishedConfig, AnotherValueThanTheComputedOneIsRefused) {
  for (const auto& [name, text] : support::published_configs) {
    expect_named(name, "quantization_config", R"({"bits": 4})");
    expect_named(name, "auto_map", R"({"AutoModelForCausalLM": "modeling.Model"})");
    expect_named(name, "is_causal", "false");
    expect_named(name, "is_encoder_decoder", "true");
    expect_named(name, "add_cross_attention", "true");
    expect_named(name, "pruned_heads", R"({"0": [1]})");
    EXPECT_EQ(published_refusal(name, "pruned_heads", "{}"), "");
    EXPECT_EQ(published_refusal(name, "is_causal", "true"), "");
  }
  for (const char* key : {"scale_attn_by_inverse_layer_idx"}) expect_named("gpt2", key, "true");
  expect_named("gpt2", "scale_attn_weights", "false");
  expect_named("gpt2", "n_special", "3");
  expect_named("gpt2", "rope_theta", "10000.0");
  for (const std::string name : {"TinyLlama-1.1B", "Qwen2.5-0.5B"}) {
    expect_named(name, "rope_interleaved", "true");
    expect_named(name, "partial_rotary_factor", "0.5");
    EXPECT_EQ(published_refusal(name, "partial_rotary_factor", "1.0"), "");
    EXPECT_NE(published_refusal(name, "hidden_act", "\"gelu\"").find("a gate other than silu"), std::string::npos);
  }
  expect_named("TinyLlama-1.1B", "use_sliding_window", "true");
  expect_named("TinyLlama-1.1B", "sliding_window", "4096");
  EXPECT_NE(published_refusal("TinyLlama-1.1B", "mlp_bias", "true").find("\"mlp_bias\" is true"), std::string::npos);
  // What changes nothing may be anything.
  EXPECT_EQ(published_refusal("TinyLlama-1.1B", "pretraining_tp", "2"), "");
  EXPECT_EQ(published_refusal("gpt2", "reorder_and_upcast_attn", "true"), "");
  EXPECT_EQ(published_refusal("gpt2", "temperature", "0.7"), "") << "transformers 5 does not read it here";
}

TEST(PublishedConfig, OtherClassesOfAFamilyAreRefused) {
  for (const char* name : {"LlamaForSequenceClassification", "MistralForCausalLM", "LlamaModel", "lower\x1b[1m"}) {
    Json json = config_of("TinyLlama-1.1B");
    const std::string said = published_refusal(json.set("architectures", Json::Array{name}));
    EXPECT_NE(said.find("\"architectures\" has "), std::string::npos) << said;
    EXPECT_EQ(said.find('\x1b'), std::string::npos);
  }
  EXPECT_NE(published_refusal("gpt2", "architectures", "[\"GPT2ForTokenClassification\"]").find("GPT2LMHeadModel"),
            std::string::npos);
  EXPECT_EQ(published_refusal("gpt2", "architectures", "[\"GPT2Model\"]"), "");
  EXPECT_EQ(published_refusal("gpt2", "architectures", "null"), "");
  EXPECT_NE(published_refusal("gpt2", "architectures", "7").find("\"architectures\" is 7"), std::string::npos);
  EXPECT_NE(published_refusal("gpt2", "model_type", "7").find("\"model_type\" is 7"), std::string::npos);
  for (const char* type : {"mixtral", "qwen3_moe", "gemma3n_text"})
    EXPECT_NE(published_refusal("gpt2", "model_type", "\"" + std::string(type) + "\"").find(type), std::string::npos);
}

TEST(PublishedConfig, TwoSpellingsOfOneThingMustAgree) {
  expect_named("gpt2", "n_positions", "512");
  expect_named("gpt2", "hidden_size", "1024");
  expect_named("gpt2", "num_hidden_layers", "13");
  expect_named("gpt2", "num_attention_heads", "13");
  EXPECT_EQ(published_refusal("gpt2", "hidden_size", "768"), "");
  EXPECT_NE(published_refusal("TinyLlama-1.1B", "dtype", "\"float32\"").find("\"torch_dtype\" is \"bfloat16\""),
            std::string::npos);
  EXPECT_EQ(published_refusal("TinyLlama-1.1B", "dtype", "\"bfloat16\""), "");
  Json json = config_of("gpt2");
  json.set("n_embd", nullptr).set("hidden_size", 768);
  EXPECT_EQ(read(json).config, read(config_of("gpt2")).config);
}

TEST(PublishedConfig, TokenIdsAreNumbers) {
  for (const char* value : {"2", "[2, 3]", "null", "-1", "[]"})
    EXPECT_EQ(published_refusal("gpt2", "eos_token_id", value), "") << value;
  for (const char* value : {"\"2\"", "2.5", "[[2]]", "{}", "true"}) expect_named("gpt2", "eos_token_id", value);
}

class RopeConfig : public testing::Test {
 protected:
  static Json rope(const std::string& type, double factor = 8) {
    return Json::Object{{"rope_type", type},
                        {"factor", factor},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 64}};
  }
  static Json with(const char* key, Json value) {
    Json json = config_of("TinyLlama-1.1B");
    json.set("rope_parameters", Json::Object{{"rope_theta", 10000.0}, {"rope_type", "default"}});
    json.set(key, std::move(value));
    return json;
  }
};

// transformers takes rope_scaling where both are there.
TEST_F(RopeConfig, ScalingBesideParametersIsObeyedOrRefused) {
  const Rope found = read(with("rope_scaling", rope("llama3"))).config.rope;
  EXPECT_EQ(found.scaling, RopeScaling::llama3);
  EXPECT_EQ(found.original_block_size, 64);
  EXPECT_EQ(found.theta, 10000);
  for (const char* type : {"proportional", "ntk"}) {
    for (const char* key : {"rope_scaling", "rope_parameters"})
      EXPECT_NE(published_refusal(with(key, rope(type))).find("\"" + std::string(key) + ".rope_type\""), std::string::npos)
          << type;
  }
  EXPECT_EQ(published_refusal(with("rope_scaling", Json::Object{})), "") << "an empty one is none";
  Json two = with("rope_scaling", rope("llama3"));
  Json parameters = rope("llama3");
  parameters.set("rope_theta", 10000.0);
  EXPECT_EQ(published_refusal(two.set("rope_parameters", parameters)), "");
  EXPECT_NE(published_refusal(two.set("rope_scaling", rope("llama3", 16))).find("say different things"), std::string::npos);
  EXPECT_NE(published_refusal(two.set("rope_scaling", Json::Object{{"rope_type", "default"}})).find("say different things"),
            std::string::npos);
}

TEST_F(RopeConfig, BasesAndContextsAgree) {
  EXPECT_NE(published_refusal(with("rope_theta", 500000.0))
                .find("\"rope_theta\" is 500000 and \"rope_parameters.rope_theta\" is 10000"),
            std::string::npos);
  Json scaling = rope("llama3");
  EXPECT_NE(published_refusal(with("rope_scaling", scaling.set("rope_theta", 5.0))).find("\"rope_scaling.rope_theta\" is 5"),
            std::string::npos);
  Json unsaid = with("rope_scaling", rope("llama3"));
  unsaid.set("rope_theta", nullptr).set("rope_parameters", Json::Object{{"rope_theta", 500000.0}, {"rope_type", "default"}});
  EXPECT_NE(published_refusal(unsaid).find("\"rope_parameters.rope_theta\" is 500000, but"), std::string::npos)
      << published_refusal(unsaid);
  EXPECT_EQ(read(unsaid.set("rope_theta", 500000.0)).config.rope.theta, 500000);
  Json other = with("rope_scaling", rope("llama3"));
  EXPECT_NE(
      published_refusal(other.set("original_max_position_embeddings", 65)).find("\"original_max_position_embeddings\" is 65"),
      std::string::npos);
  EXPECT_EQ(published_refusal(other.set("original_max_position_embeddings", 64)), "");
  Json spelt = rope("llama3");
  EXPECT_NE(published_refusal(with("rope_scaling", spelt.set("type", "yarn"))).find("\"rope_scaling.type\" is \"yarn\""),
            std::string::npos);
  EXPECT_EQ(published_refusal(with("rope_scaling", spelt.set("type", "llama3"))), "");
}

TEST_F(RopeConfig, KeysWithinAreKnownToo) {
  for (const char* key : {"attention_factor", "beta_fast", "mscale", "mrope_section", "full_attention"}) {
    Json scaling = rope("llama3");
    scaling.set(key, 0.5);
    EXPECT_NE(published_refusal(with("rope_scaling", scaling)).find("\"rope_scaling." + std::string(key) + "\" is 0.5"),
              std::string::npos)
        << key << published_refusal(with("rope_scaling", scaling));
  }
  EXPECT_NE(published_refusal(with("rope_scaling", "yarn")).find("\"rope_scaling\" is \"yarn\", but must be an object"),
            std::string::npos);
  Json bad = rope("llama3");
  bad.set("factor", -1).set("low_freq_factor", "1").set("original_max_position_embeddings", 0.5);
  const std::string all = published_refusal(with("rope_scaling", bad));
  for (const char* key : {"factor", "low_freq_factor", "original_max_position_embeddings"})
    EXPECT_NE(all.find("\"rope_scaling." + std::string(key) + "\" is "), std::string::npos) << all;
}

}  // namespace
}  // namespace lockstep::arch::huggingface
