// config.json of published models: each key is obeyed, changes nothing, or is refused by its name.

#include <gtest/gtest.h>

#include <map>

#include "arch/huggingface/config_json.h"

namespace lockstep::arch::huggingface {
namespace {

// As they were published; of the id lists and the like that change nothing, some of each kind.
const std::map<std::string, std::string> published = {
    {"gpt2",
     R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
      "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
      "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1,
      "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
      "summary_use_proj": true, "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
      "vocab_size": 50257})"},
    {"gpt2-medium", R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
      "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
      "model_type": "gpt2", "n_ctx": 1024, "n_embd": 1024, "n_head": 16, "n_layer": 24, "n_positions": 1024, "n_special": 0,
      "predict_special_tokens": true, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
      "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
      "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})"},
    {"gpt2-xl", R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
      "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
      "model_type": "gpt2", "n_ctx": 1024, "n_embd": 1600, "n_head": 25, "n_layer": 48, "n_positions": 1024, "output_past": true,
      "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
      "summary_type": "cls_index", "summary_use_proj": true,
      "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})"},
    {"Llama-3.1-8B-Instruct", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096,
      "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
      "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
      "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256})"},
    {"TinyLlama-1.1B", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2,
      "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632,
      "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 22,
      "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.35.0", "use_cache": true,
      "vocab_size": 32000})"},
    {"SmolLM2-135M", R"({"_name_or_path": "HuggingFaceTB/SmolLM2-135M", "architectures": ["LlamaForCausalLM"],
      "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "head_dim": 64,
      "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
      "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama",
      "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
      "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
      "transformers_version": "4.48.0", "use_cache": true, "vocab_size": 49152})"},
    {"Qwen2.5-0.5B", R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
      "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
      "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
      "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
      "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.40.1",
      "use_cache": true, "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})"},
    {"Qwen3-0.6B", R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
      "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
      "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
      "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false,
      "vocab_size": 151936})"},
    {"Mistral-7B-v0.1", R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
      "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
      "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
      "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000})"},
    {"Phi-3-mini-4k-instruct", R"({"_name_or_path": "Phi-3-mini-4k-instruct", "architectures": ["Phi3ForCausalLM"],
      "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 32000, "hidden_act": "silu",
      "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096,
      "model_type": "phi3", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
      "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
      "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "transformers_version": "4.40.2", "use_cache": true, "attention_bias": false,
      "vocab_size": 32064})"},
    {"SmolLM3-3B", R"({"architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": null, "eos_token_id": 128012, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
      "intermediate_size": 11008, "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false,
      "model_type": "smollm3", "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "num_attention_heads": 16,
      "num_hidden_layers": 8, "num_key_value_heads": 4, "pad_token_id": 128004, "pretraining_tp": 2, "rms_norm_eps": 1e-06,
      "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null, "torch_dtype": "bfloat16",
      "transformers_version": "4.53.0.dev0", "use_cache": false, "use_sliding_window": false, "vocab_size": 128256})"}};

PublishedModel read(const Json& json) { return model_from_json(json, "config.json"); }
Json config_of(const std::string& name) { return Json::parse(published.at(name)); }

/// What refuses it; empty when it is read.
std::string refusal(const Json& json) {
  try {
    static_cast<void>(read(json));
  } catch (const UserError& error) {
    std::string all;
    for (const Problem& problem : error.problems()) all += problem.message + "\n" + problem.remedy + "\n";
    return all;
  }
  return "";
}
std::string refusal(const std::string& name, const std::string& key, const std::string& value) {
  Json json = config_of(name);
  return refusal(json.set(key, Json::parse(value)));
}
void expect_named(const std::string& name, const std::string& key, const std::string& value) {
  EXPECT_NE(refusal(name, key, value).find("\"" + key + "\" is "), std::string::npos)
      << key << " " << value << refusal(name, key, value);
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
                                               {"SmolLM3-3B", 8, 2048, 16, 4, 11008, 65536, true}}) {
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
  for (const auto& [name, text] : published) {
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
  EXPECT_NE(refusal(qwen.set("max_window_layers", 3)).find("not all, nor all but every n-th"), std::string::npos);
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
  EXPECT_NE(refusal(smol.set("no_rope_layers", Json::parse("[1, 0, 1, 1, 1, 1, 1, 1]"))).find("not every n-th one"),
            std::string::npos);
  EXPECT_NE(refusal(smol.set("no_rope_layers", Json::parse("[1, 0]"))).find("names 2 layers of 8"), std::string::npos);
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
  EXPECT_NE(refusal(qwen.set("layer_types", types)).find("\"layer_types\" names 23 layers of 24"), std::string::npos);
}

TEST(PublishedConfig, AnUnknownKeyIsRefusedUnlessItIsNullOrFalse) {
  for (const auto& [name, text] : published) {
    for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "embedding_multiplier", "residual_multiplier",
                            "qk_layernorm", "use_qk_norm", "no_rope_layers", "text_config", "num_experts", "multi_query"}) {
      if (name.starts_with("SmolLM3") && std::string_view(key) == "no_rope_layers") continue;
      for (const char* value : {"30.0", "true", "\"x\"", "[1]", "{\"a\": 1}", "0", "-1"}) expect_named(name, key, value);
      for (const char* value : {"null", "false"}) EXPECT_EQ(refusal(name, key, value), "") << name << " " << key;
    }
  }
  Json json = config_of("gpt2");
  for (int i = 0; i < 50; ++i) json.set("key" + std::to_string(i), i);
  EXPECT_NE(refusal(json).find("\"key19\" is 19: this key is not known"), std::string::npos) << refusal(json);
  EXPECT_NE(refusal(json).find("30 more keys are not known"), std::string::npos) << refusal(json);
  EXPECT_EQ(refusal(json).find("\"key20\""), std::string::npos);
}

TEST(PublishedConfig, AnotherValueThanTheComputedOneIsRefused) {
  for (const auto& [name, text] : published) {
    expect_named(name, "quantization_config", R"({"bits": 4})");
    expect_named(name, "auto_map", R"({"AutoModelForCausalLM": "modeling.Model"})");
    expect_named(name, "is_causal", "false");
    expect_named(name, "is_encoder_decoder", "true");
    expect_named(name, "add_cross_attention", "true");
    expect_named(name, "pruned_heads", R"({"0": [1]})");
    EXPECT_EQ(refusal(name, "pruned_heads", "{}"), "");
    EXPECT_EQ(refusal(name, "is_causal", "true"), "");
  }
  for (const char* key : {"scale_attn_by_inverse_layer_idx"}) expect_named("gpt2", key, "true");
  expect_named("gpt2", "scale_attn_weights", "false");
  expect_named("gpt2", "n_special", "3");
  expect_named("gpt2", "rope_theta", "10000.0");
  for (const std::string name : {"TinyLlama-1.1B", "Qwen2.5-0.5B"}) {
    expect_named(name, "rope_interleaved", "true");
    expect_named(name, "partial_rotary_factor", "0.5");
    EXPECT_EQ(refusal(name, "partial_rotary_factor", "1.0"), "");
    EXPECT_NE(refusal(name, "hidden_act", "\"gelu\"").find("a gate other than silu"), std::string::npos);
  }
  expect_named("TinyLlama-1.1B", "use_sliding_window", "true");
  expect_named("TinyLlama-1.1B", "sliding_window", "4096");
  EXPECT_NE(refusal("TinyLlama-1.1B", "mlp_bias", "true").find("\"mlp_bias\" is true"), std::string::npos);
  // What changes nothing may be anything.
  EXPECT_EQ(refusal("TinyLlama-1.1B", "pretraining_tp", "2"), "");
  EXPECT_EQ(refusal("gpt2", "reorder_and_upcast_attn", "true"), "");
  EXPECT_EQ(refusal("gpt2", "temperature", "0.7"), "") << "transformers 5 does not read it here";
}

TEST(PublishedConfig, OtherClassesOfAFamilyAreRefused) {
  for (const char* name : {"LlamaForSequenceClassification", "MistralForCausalLM", "LlamaModel", "lower\x1b[1m"}) {
    Json json = config_of("TinyLlama-1.1B");
    const std::string said = refusal(json.set("architectures", Json::Array{name}));
    EXPECT_NE(said.find("\"architectures\" has "), std::string::npos) << said;
    EXPECT_EQ(said.find('\x1b'), std::string::npos);
  }
  EXPECT_NE(refusal("gpt2", "architectures", "[\"GPT2ForTokenClassification\"]").find("GPT2LMHeadModel"), std::string::npos);
  EXPECT_EQ(refusal("gpt2", "architectures", "[\"GPT2Model\"]"), "");
  EXPECT_EQ(refusal("gpt2", "architectures", "null"), "");
  EXPECT_NE(refusal("gpt2", "architectures", "7").find("\"architectures\" is 7"), std::string::npos);
  EXPECT_NE(refusal("gpt2", "model_type", "7").find("\"model_type\" is 7"), std::string::npos);
  for (const char* type : {"mixtral", "qwen3_moe", "gemma"})
    EXPECT_NE(refusal("gpt2", "model_type", "\"" + std::string(type) + "\"").find(type), std::string::npos);
}

TEST(PublishedConfig, TwoSpellingsOfOneThingMustAgree) {
  expect_named("gpt2", "n_positions", "512");
  expect_named("gpt2", "hidden_size", "1024");
  expect_named("gpt2", "num_hidden_layers", "13");
  expect_named("gpt2", "num_attention_heads", "13");
  EXPECT_EQ(refusal("gpt2", "hidden_size", "768"), "");
  EXPECT_NE(refusal("TinyLlama-1.1B", "dtype", "\"float32\"").find("\"torch_dtype\" is \"bfloat16\""), std::string::npos);
  EXPECT_EQ(refusal("TinyLlama-1.1B", "dtype", "\"bfloat16\""), "");
  Json json = config_of("gpt2");
  json.set("n_embd", nullptr).set("hidden_size", 768);
  EXPECT_EQ(read(json).config, read(config_of("gpt2")).config);
}

TEST(PublishedConfig, TokenIdsAreNumbers) {
  for (const char* value : {"2", "[2, 3]", "null", "-1", "[]"}) EXPECT_EQ(refusal("gpt2", "eos_token_id", value), "") << value;
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
  for (const char* type : {"longrope", "proportional", "su"}) {
    for (const char* key : {"rope_scaling", "rope_parameters"})
      EXPECT_NE(refusal(with(key, rope(type))).find("\"" + std::string(key) + ".rope_type\""), std::string::npos) << type;
  }
  EXPECT_EQ(refusal(with("rope_scaling", Json::Object{})), "") << "an empty one is none";
  Json two = with("rope_scaling", rope("llama3"));
  Json parameters = rope("llama3");
  parameters.set("rope_theta", 10000.0);
  EXPECT_EQ(refusal(two.set("rope_parameters", parameters)), "");
  EXPECT_NE(refusal(two.set("rope_scaling", rope("llama3", 16))).find("say different things"), std::string::npos);
  EXPECT_NE(refusal(two.set("rope_scaling", Json::Object{{"rope_type", "default"}})).find("say different things"),
            std::string::npos);
}

TEST_F(RopeConfig, BasesAndContextsAgree) {
  EXPECT_NE(refusal(with("rope_theta", 500000.0)).find("\"rope_theta\" is 500000 and \"rope_parameters.rope_theta\" is 10000"),
            std::string::npos);
  Json scaling = rope("llama3");
  EXPECT_NE(refusal(with("rope_scaling", scaling.set("rope_theta", 5.0))).find("\"rope_scaling.rope_theta\" is 5"),
            std::string::npos);
  Json unsaid = with("rope_scaling", rope("llama3"));
  unsaid.set("rope_theta", nullptr).set("rope_parameters", Json::Object{{"rope_theta", 500000.0}, {"rope_type", "default"}});
  EXPECT_NE(refusal(unsaid).find("\"rope_parameters.rope_theta\" is 500000, but"), std::string::npos) << refusal(unsaid);
  EXPECT_EQ(read(unsaid.set("rope_theta", 500000.0)).config.rope.theta, 500000);
  Json other = with("rope_scaling", rope("llama3"));
  EXPECT_NE(refusal(other.set("original_max_position_embeddings", 65)).find("\"original_max_position_embeddings\" is 65"),
            std::string::npos);
  EXPECT_EQ(refusal(other.set("original_max_position_embeddings", 64)), "");
  Json spelt = rope("llama3");
  EXPECT_NE(refusal(with("rope_scaling", spelt.set("type", "yarn"))).find("\"rope_scaling.type\" is \"yarn\""),
            std::string::npos);
  EXPECT_EQ(refusal(with("rope_scaling", spelt.set("type", "llama3"))), "");
}

TEST_F(RopeConfig, KeysWithinAreKnownToo) {
  for (const char* key : {"attention_factor", "beta_fast", "mscale", "mrope_section", "full_attention"}) {
    Json scaling = rope("llama3");
    scaling.set(key, 0.5);
    EXPECT_NE(refusal(with("rope_scaling", scaling)).find("\"rope_scaling." + std::string(key) + "\" is 0.5"), std::string::npos)
        << key << refusal(with("rope_scaling", scaling));
  }
  EXPECT_NE(refusal(with("rope_scaling", "yarn")).find("\"rope_scaling\" is \"yarn\", but must be an object"), std::string::npos);
  Json bad = rope("llama3");
  bad.set("factor", -1).set("low_freq_factor", "1").set("original_max_position_embeddings", 0.5);
  const std::string all = refusal(with("rope_scaling", bad));
  for (const char* key : {"factor", "low_freq_factor", "original_max_position_embeddings"})
    EXPECT_NE(all.find("\"rope_scaling." + std::string(key) + "\" is "), std::string::npos) << all;
}

}  // namespace
}  // namespace lockstep::arch::huggingface
