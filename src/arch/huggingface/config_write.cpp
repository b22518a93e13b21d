// From a model to a config.json.

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "arch/huggingface/config_json.h"
#include "arch/huggingface/known_keys.h"
#include "arch/huggingface/rope_json.h"

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

void set_biases(Json& json, const ModelConfig& config) {
  json.set("attention_bias", config.bias);
  json.set("mlp_bias", config.bias);
}

/// Each layer as "layer_types" names it.
Json layer_types(const ModelConfig& config) {
  Json::Array types;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    types.emplace_back(sees_window(config, layer) ? "sliding_attention" : "full_attention");
  }
  return types;
}

/// Gemma 2 and 3 divide scores by the root of this number.
std::int64_t score_divisor(const ModelConfig& config) {
  const double scale = config.attention_scale;
  return scale > 0 ? std::llround(1 / (scale * scale)) : config.head_size;
}

double score_scale(const ModelConfig& config) {
  return config.attention_scale > 0 ? config.attention_scale : 1 / std::sqrt(static_cast<double>(config.head_size));
}

void set_parts(Json& json, const ModelConfig& config, Family family) {
  const Json window = config.window > 0 ? Json(config.window) : Json();
  switch (family) {
    case Family::mistral:
    case Family::phi3:
      json.set("sliding_window", window);
      break;
    case Family::qwen2:
    case Family::qwen3:
      json.set("use_sliding_window", config.window > 0);
      if (config.window == 0) break;
      json.set("sliding_window", window);
      json.set("max_window_layers", 0);
      json.set("layer_types", layer_types(config));
      break;
    case Family::gemma:
    case Family::olmo2:
      break;
    case Family::granite:
      json.set("embedding_multiplier", config.embedding_scale);
      json.set("residual_multiplier", config.residual_scale);
      json.set("attention_multiplier", score_scale(config));
      json.set("logits_scaling", 1 / config.logit_scale);
      set_biases(json, config);
      break;
    case Family::gemma2:
    case Family::gemma3:
      json.set("query_pre_attn_scalar", score_divisor(config));
      json.set("attn_logit_softcapping", config.attention_softcap > 0 ? Json(config.attention_softcap) : Json());
      json.set("final_logit_softcapping", config.logit_softcap > 0 ? Json(config.logit_softcap) : Json());
      if (config.window > 0) json.set("sliding_window", window);  // transformers asks for a number even where none is used
      json.set("layer_types", layer_types(config));
      if (config.global_every > 0) json.set("sliding_window_pattern", config.global_every);
      if (has_local_theta(config)) json.set("rope_local_base_freq", config.rope.local_theta);
      break;
    case Family::smollm3: {
      Json::Array turned;
      for (int layer = 0; layer < config.layers; ++layer) turned.emplace_back(turns(config, layer) ? 1 : 0);
      json.set("no_rope_layers", std::move(turned));
      json.set("use_sliding_window", false);
      set_biases(json, config);
      break;
    }
    default:
      set_biases(json, config);
  }
}

Json llama_json(const ModelConfig& config, Family family) {
  Json json;
  json.set("architectures", Json::Array{std::string(keys_of(family).classes.front())});
  json.set("model_type", std::string(name_of(family)));
  json.set("vocab_size", config.vocabulary);
  json.set("max_position_embeddings", config.block_size);
  json.set("hidden_size", config.width);
  json.set("intermediate_size", config.ffn_width);
  json.set("num_hidden_layers", config.layers);
  json.set("num_attention_heads", config.heads);
  json.set("num_key_value_heads", config.kv_heads);
  json.set("head_dim", config.head_size);
  json.set(has_hidden_activation(family) ? "hidden_activation" : "hidden_act",
           is_gemma(family) ? "gelu_pytorch_tanh" : activation_name(config.activation));
  json.set("rms_norm_eps", shortest(config.norm_eps));
  json.set("rope_theta", config.rope.theta);
  Json scaling = rope_json(config.rope, config.block_size);
  if (config.rope.scaling == RopeScaling::longrope)  // which Phi-3 alone has beside
    (family == Family::phi3 ? json : scaling).set("original_max_position_embeddings", config.rope.original_block_size);
  json.set("rope_scaling", std::move(scaling));
  json.set("attention_dropout", shortest(config.dropout));
  set_parts(json, config, family);
  return json;
}

/// Whether "attention_bias" and "mlp_bias" say of the family's models which biases they have.
bool has_biases_by_keys(Family family) {
  return family == Family::llama || family == Family::smollm3 || family == Family::granite;
}

/// What the parts of a model with RMSNorm, rotary positions and a gate are published as.
Family llama_kin(const ModelConfig& config) {
  if (config.activation == ActivationKind::gelu_tanh)
    return !config.post_norm ? Family::gemma : config.qk_norm ? Family::gemma3 : Family::gemma2;
  if (!config.pre_norm) return Family::olmo2;
  if (config.qk_norm) return Family::qwen3;
  const bool scales = config.embedding_scale != 1 || config.residual_scale != 1 || config.logit_scale != 1;
  if (scales || config.attention_scale > 0) return Family::granite;
  if (config.rope.skip_every > 0) return Family::smollm3;
  if (config.rope.scaling == RopeScaling::longrope && !config.bias && !config.qkv_bias) return Family::phi3;
  if (config.qkv_bias && !config.bias) return Family::qwen2;
  return config.window > 0 ? Family::mistral : Family::llama;
}

/// Parts of a model that a family lacks, as settings.
struct Lacking {
  std::string text = {};
  void add(bool lacks, std::string_view part) {
    if (lacks) text += fmt::format("{}{}", text.empty() ? "" : ", ", part);
  }
};

void add_norms(const ModelConfig& config, Family family, Lacking& lacking) {
  const bool gemma = is_gemma(family), olmo2 = family == Family::olmo2;
  const bool of_heads = family == Family::qwen3 || family == Family::gemma3 || olmo2;
  lacking.add((config.activation == ActivationKind::gelu_tanh) != gemma,
              gemma ? "model.activation=swiglu" : "model.activation=geglu");
  lacking.add(config.qk_norm != of_heads, fmt::format("model.qk_norm={}", config.qk_norm));
  lacking.add(config.qk_norm_whole != olmo2, fmt::format("model.qk_norm_whole={}", config.qk_norm_whole));
  lacking.add(config.pre_norm == olmo2, fmt::format("model.pre_norm={}", config.pre_norm));
  lacking.add(config.post_norm != has_post_norms(family), fmt::format("model.post_norm={}", config.post_norm));
  lacking.add(config.unit_offset != gemma, fmt::format("model.norm_unit_offset={}", config.unit_offset));
}

void add_factors(const ModelConfig& config, Family family, Lacking& lacking) {
  const bool gemma = is_gemma(family), granite = family == Family::granite;
  const bool caps = family == Family::gemma2 || family == Family::gemma3;
  lacking.add(config.residual_scale != 1 && !granite, fmt::format("model.residual_scale={}", config.residual_scale));
  lacking.add(config.logit_scale != 1 && !granite, fmt::format("model.logit_scale={}", config.logit_scale));
  const double length = gemma ? std::sqrt(static_cast<double>(config.width)) : 1;
  lacking.add(!granite && std::fabs(config.embedding_scale - length) > 1e-6 * length,
              fmt::format("model.embedding_scale={}", config.embedding_scale));
  lacking.add(config.attention_softcap > 0 && family != Family::gemma2, "model.attention_softcap");
  lacking.add(config.logit_softcap > 0 && !caps, "model.logit_softcap");
  const double scale = 1 / std::sqrt(static_cast<double>(score_divisor(config)));
  lacking.add(config.attention_scale > 0 && !granite && !(caps && std::fabs(config.attention_scale - scale) <= 1e-12),
              fmt::format("model.attention_scale={}", config.attention_scale));
}

void add_positions(const ModelConfig& config, Family family, Lacking& lacking) {
  const bool gemma3 = family == Family::gemma3, phi3 = family == Family::phi3;
  lacking.add(has_local_theta(config) && !gemma3, "model.rope_local_theta");
  lacking.add(gemma3 && config.window > 0 && !has_local_theta(config), "model.rope_local_theta=0");
  lacking.add(config.rope.skip_every > 0 && family != Family::smollm3, "model.rope_skip_every");
  lacking.add(config.window > 0 && (has_biases_by_keys(family) || family == Family::olmo2 || family == Family::gemma),
              "model.window");
  lacking.add(config.global_every > 0 && (family == Family::mistral || phi3), "model.global_every");
  const bool longrope = config.rope.scaling == RopeScaling::longrope;
  lacking.add(phi3 && config.rope.scaling != RopeScaling::none && !longrope, "model.rope_scaling");
}

/// What the family lacks of the model; empty: nothing.
std::string lacking_of(const ModelConfig& config, Family family) {
  Lacking lacking;
  add_norms(config, family, lacking);
  add_factors(config, family, lacking);
  add_positions(config, family, lacking);
  const bool by_keys = has_biases_by_keys(family);
  lacking.add(config.bias && !by_keys, "model.bias=true");
  const bool qkv_apart = family == Family::qwen2 ? !config.qkv_bias : config.qkv_bias && !(by_keys && config.bias);
  lacking.add(qkv_apart, fmt::format("model.qkv_bias={}", config.qkv_bias));
  return lacking.text;
}

Family named_family(const ModelConfig& config) {
  const std::optional<Family> family = family_named(config.family);
  const bool known = family && *family != Family::gpt2 && *family != Family::rasbt;
  if (!known)
    throw UserError(fmt::format("model.family = {}: no family of this name has the model's parts", config.family),
                    "leave it out for the one that has");
  return *family;
}

}  // namespace

Family family_of(const ModelConfig& config) {
  const bool plain_heads = config.kv_heads == config.heads && config.heads * config.head_size == config.width;
  const bool rotary = config.position == PositionKind::rope;
  if (config.norm == NormKind::layernorm && !rotary && !config.gated && plain_heads && !config.qk_norm && config.window == 0 &&
      !config.post_norm && config.residual_scale == 1 && config.logit_scale == 1 && config.attention_scale == 0 &&
      config.attention_softcap == 0 && config.logit_softcap == 0 && config.family.empty())
    return Family::gpt2;
  const bool gate = config.gated && (config.activation == ActivationKind::silu || config.activation == ActivationKind::gelu_tanh);
  if (config.norm == NormKind::rmsnorm && rotary && gate) {
    const Family family = config.family.empty() ? llama_kin(config) : named_family(config);
    const std::string parts = lacking_of(config, family);
    if (parts.empty()) return family;
    throw UserError(fmt::format("{} has no models with {}", name_of(family), parts),
                    config.family.empty() ? "no family of Hugging Face's has these parts together"
                                          : "leave model.family out for the family that has");
  }
  throw UserError(fmt::format("no family of Hugging Face's has this model's parts: {}, {} positions, {}{}{}",
                              config.norm == NormKind::rmsnorm ? "RMSNorm" : "LayerNorm", rotary ? "rotary" : "learned",
                              activation_name(config.activation), config.gated ? " with a gate" : "",
                              plain_heads ? "" : ", heads apart from the width or shared key/value heads"),
                  "GPT-2 is LayerNorm, learned positions and no gate; Llama and its kin are RMSNorm, rotary positions and "
                  "SwiGLU, Gemma GeGLU");
}

Json to_json(const ModelConfig& config, Family family) {
  ensure(family != Family::rasbt && family != Family::rasbt_fused, "models are written for transformers");
  Json json = family == Family::gpt2 ? gpt2_json(config) : llama_json(config, family);
  json.set("tie_word_embeddings", config.tied);
  return json;
}

}  // namespace lockstep::arch::huggingface
