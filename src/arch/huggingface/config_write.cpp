// From a model to a config.json.

#include <fmt/format.h>

#include <string>

#include "arch/huggingface/config_json.h"

namespace lockstep::arch::huggingface {
namespace {

/// The shortest number that reads back as the same float: 1e-05, not 9.99999974738e-06.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

const char* activation_name(ActivationKind activation) {
  switch (activation) {
    case ActivationKind::none:
      return "linear";
    case ActivationKind::gelu:
      return "gelu";
    case ActivationKind::gelu_tanh:
      return "gelu_new";
    case ActivationKind::relu:
      return "relu";
    case ActivationKind::silu:
      return "silu";
  }
  throw BrokenRule("every activation has a name");
}

Json gpt2_json(const ModelConfig& config) {
  Json json;
  json.set("architectures", Json::Array{"GPT2LMHeadModel"});
  json.set("model_type", "gpt2");
  json.set("vocab_size", config.vocabulary);
  json.set("n_positions", config.block_size);
  json.set("n_embd", config.width);
  json.set("n_layer", config.layers);
  json.set("n_head", config.heads);
  json.set("n_inner", config.ffn_width == 4 * config.width ? Json() : Json(config.ffn_width));
  json.set("activation_function", activation_name(config.activation));
  json.set("layer_norm_epsilon", shortest(config.norm_eps));
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json.set(key, shortest(config.dropout));
  return json;
}

Json rope_json(const Rope& rope) {
  if (rope.scaling == RopeScaling::none) return {};
  return Json::Object{{"rope_type", "llama3"},
                      {"factor", rope.factor},
                      {"low_freq_factor", rope.low_freq_factor},
                      {"high_freq_factor", rope.high_freq_factor},
                      {"original_max_position_embeddings", rope.original_block_size}};
}

Json llama_json(const ModelConfig& config, Family family) {
  const bool qwen2 = family == Family::qwen2;
  Json json;
  json.set("architectures", Json::Array{qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"});
  json.set("model_type", qwen2 ? "qwen2" : "llama");
  json.set("vocab_size", config.vocabulary);
  json.set("max_position_embeddings", config.block_size);
  json.set("hidden_size", config.width);
  json.set("intermediate_size", config.ffn_width);
  json.set("num_hidden_layers", config.layers);
  json.set("num_attention_heads", config.heads);
  json.set("num_key_value_heads", config.kv_heads);
  json.set("head_dim", config.head_size);
  json.set("hidden_act", activation_name(config.activation));
  json.set("rms_norm_eps", shortest(config.norm_eps));
  json.set("rope_theta", config.rope.theta);
  json.set("rope_scaling", rope_json(config.rope));
  json.set("attention_dropout", shortest(config.dropout));
  if (qwen2) {
    json.set("use_sliding_window", false);
  } else {
    json.set("attention_bias", config.bias);
    json.set("mlp_bias", config.bias);
  }
  return json;
}

}  // namespace

Family family_of(const ModelConfig& config) {
  const bool plain_heads = config.kv_heads == config.heads && config.heads * config.head_size == config.width;
  if (config.norm == NormKind::layernorm && config.position == PositionKind::learned && !config.gated && plain_heads)
    return Family::gpt2;
  const bool swiglu = config.gated && config.activation == ActivationKind::silu;
  if (config.norm == NormKind::rmsnorm && config.position == PositionKind::rope && swiglu)
    return config.qkv_bias && !config.bias ? Family::qwen2 : Family::llama;
  throw UserError(fmt::format("no family of Hugging Face's has this model's parts: {}, {} positions, {}{}{}",
                              config.norm == NormKind::rmsnorm ? "RMSNorm" : "LayerNorm",
                              config.position == PositionKind::rope ? "rotary" : "learned", activation_name(config.activation),
                              config.gated ? " with a gate" : "",
                              plain_heads ? "" : ", heads apart from the width or shared key/value heads"),
                  "GPT-2 is LayerNorm, learned positions and no gate; Llama and Qwen2 are RMSNorm, rotary positions and SwiGLU");
}

Json to_json(const ModelConfig& config, Family family) {
  ensure(family != Family::rasbt && family != Family::rasbt_fused, "models are written for transformers");
  Json json = family == Family::gpt2 ? gpt2_json(config) : llama_json(config, family);
  json.set("tie_word_embeddings", config.tied);
  return json;
}

}  // namespace lockstep::arch::huggingface
