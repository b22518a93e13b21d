// From a config.json to a model.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "arch/huggingface/config_json.h"

namespace lockstep::arch::huggingface {
namespace {

constexpr std::string_view families = "known are gpt2, llama, qwen2, and rasbt's GPT-2 (its settings with \"emb_dim\")";

/// Reads members of an object and collects what is wrong with them.
class Fields {
 public:
  Fields(const Json& json, std::string_view what, std::string prefix = "")
      : json_(json), what_(what), prefix_(std::move(prefix)) {}

  /// A whole number of at least 1 and at most `most`; without one, `otherwise`, or else the field is missing.
  std::int64_t size(std::string_view key, std::int64_t most, std::optional<std::int64_t> otherwise = std::nullopt) {
    const Json* value = present(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr) return missing(key), 1;
    if (!value->is_int() || value->integer() < 1 || value->integer() > most) {
      return wrong(key, *value, fmt::format("a whole number from 1 to {}", most)), 1;
    }
    return value->integer();
  }
  double positive(std::string_view key, std::optional<double> otherwise = std::nullopt) {
    const Json* value = present(key);
    if (value == nullptr && otherwise) return *otherwise;
    if (value == nullptr) return missing(key), 1;
    if (!value->is_number() || !(value->number() > 0)) return wrong(key, *value, "a number above 0"), 1;
    return value->number();
  }
  bool flag(std::string_view key, bool otherwise) {
    const Json* value = present(key);
    if (value == nullptr) return otherwise;
    if (!value->is_bool()) return wrong(key, *value, "true or false"), otherwise;
    return value->boolean();
  }
  std::string text(std::string_view key, std::string otherwise) {
    const Json* value = present(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) return wrong(key, *value, "a text"), otherwise;
    return value->string();
  }
  /// Null when the member is missing or null.
  const Json* present(std::string_view key) const {
    const Json* value = json_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  void refuse(std::string problem, std::string remedy = "this version does not compute it") {
    problems.push_back({fmt::format("{}: {}", what_, problem), std::move(remedy)});
  }

  std::vector<Problem> problems;

 private:
  void missing(std::string_view key) {
    refuse(fmt::format("\"{}{}\" is missing", prefix_, key), "take the config.json that the weights were published with");
  }
  void wrong(std::string_view key, const Json& value, std::string_view rule) {
    std::string shown = value.dump();
    if (shown.size() > 80) shown = shown.substr(0, 80) + "...";
    refuse(fmt::format("\"{}{}\" is {}, but must be {}", prefix_, key, shown, rule),
           "take the config.json that the weights were published with");
  }
  const Json& json_;
  std::string_view what_;
  std::string prefix_;
};

// Sizes beyond these are no model's; they keep products of two of them within 64 bits.
constexpr std::int64_t most_layers = 4096, most_heads = 65536, most_head_size = 256, most_width = 1 << 20, most_ffn = 1 << 24,
                       most_vocabulary = 1 << 27, most_positions = 1 << 30;

void read_activation(Fields& fields, ModelConfig& config, std::string_view key, const std::string& name) {
  struct Name {
    std::string_view name;
    ActivationKind value;
  };
  static constexpr std::array<Name, 8> names{{{"gelu_new", ActivationKind::gelu_tanh},
                                              {"gelu_pytorch_tanh", ActivationKind::gelu_tanh},
                                              {"gelu_fast", ActivationKind::gelu_tanh},
                                              {"gelu", ActivationKind::gelu},
                                              {"relu", ActivationKind::relu},
                                              {"silu", ActivationKind::silu},
                                              {"swish", ActivationKind::silu},
                                              {"linear", ActivationKind::none}}};
  for (const Name& one : names) {
    if (one.name == name) config.activation = one.value;
  }
  const bool known = std::any_of(names.begin(), names.end(), [&](const Name& one) { return one.name == name; });
  if (!known) fields.refuse(fmt::format("the activation \"{}\" (\"{}\") is not known", name, key));
}

void share_width(Fields& fields, ModelConfig& config) {
  if (fields.problems.empty() && config.width % config.heads != 0) {
    fields.refuse(fmt::format("{} heads do not divide a width of {}", config.heads, config.width),
                  "take the config.json that the weights were published with");
  }
  config.head_size = config.width / config.heads;
}

ModelConfig gpt2_config(Fields& fields) {
  ModelConfig config;
  config.vocabulary = fields.size("vocab_size", most_vocabulary);
  config.block_size = fields.size(
      fields.present("n_positions") == nullptr && fields.present("n_ctx") != nullptr ? "n_ctx" : "n_positions", most_positions);
  config.width = fields.size("n_embd", most_width);
  config.layers = fields.size("n_layer", most_layers);
  config.heads = config.kv_heads = fields.size("n_head", most_heads);
  config.ffn_width = fields.size("n_inner", most_ffn, 4 * config.width);
  share_width(fields, config);
  read_activation(fields, config, "activation_function", fields.text("activation_function", "gelu_new"));
  config.norm_eps = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  config.tied = fields.flag("tie_word_embeddings", true);
  config.bias = config.qkv_bias = true;
  if (!fields.flag("scale_attn_weights", true)) fields.refuse("\"scale_attn_weights\" is false: scores that are not scaled");
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (fields.flag(key, false)) fields.refuse(fmt::format("\"{}\" is true", key));
  }
  return config;
}

/// transformers 5 has all about rotary positions in "rope_parameters"; before, "rope_theta" stood beside "rope_scaling".
void read_rope(Fields& fields, const Json& json, ModelConfig& config, std::string_view what) {
  const char* key = fields.present("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  config.rope.theta = fields.positive("rope_theta", 10000);
  const Json* scaling = fields.present(key);
  if (scaling == nullptr) return;
  if (!scaling->is_object()) return fields.refuse(fmt::format("\"{}\" is no object", key));
  Fields rope(*scaling, what, std::string(key) + ".");
  config.rope.theta = rope.positive("rope_theta", config.rope.theta);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "llama3") {
    config.rope.scaling = RopeScaling::llama3;
    config.rope.factor = rope.positive("factor");
    config.rope.low_freq_factor = rope.positive("low_freq_factor");
    config.rope.high_freq_factor = rope.positive("high_freq_factor");
    config.rope.original_block_size = rope.size("original_max_position_embeddings", most_positions);
  } else if (type != "default") {
    rope.refuse(fmt::format("rotary positions of type \"{}\" are not known", type), "known are default and llama3");
  }
  if (rope.positive("partial_rotary_factor", 1.0) != 1 || fields.positive("partial_rotary_factor", 1.0) != 1)
    rope.refuse("\"partial_rotary_factor\" is not 1: rotary positions of a part of each head");
  for (Problem& problem : rope.problems) fields.problems.push_back(std::move(problem));
  if (json.find("rope_parameters") != nullptr && json.find("rope_theta") == nullptr && scaling->find("rope_theta") == nullptr)
    fields.refuse(fmt::format("\"{}.rope_theta\" is missing", key));
}

/// Llama, and what Qwen2 has in common with it.
ModelConfig llama_config(Fields& fields, const Json& json, std::string_view what) {
  ModelConfig config;
  config.vocabulary = fields.size("vocab_size", most_vocabulary);
  config.block_size = fields.size("max_position_embeddings", most_positions);
  config.width = fields.size("hidden_size", most_width);
  config.layers = fields.size("num_hidden_layers", most_layers);
  config.heads = fields.size("num_attention_heads", most_heads);
  config.kv_heads = fields.size("num_key_value_heads", most_heads, config.heads);
  config.ffn_width = fields.size("intermediate_size", most_ffn);
  if (fields.present("head_dim") == nullptr) {
    share_width(fields, config);
  } else {
    config.head_size = fields.size("head_dim", most_head_size);
  }
  config.norm = NormKind::rmsnorm;
  config.norm_eps = static_cast<float>(fields.positive("rms_norm_eps", 1e-6));
  config.position = PositionKind::rope;
  read_rope(fields, json, config, what);
  config.gated = true;
  read_activation(fields, config, "hidden_act", fields.text("hidden_act", "silu"));
  if (config.activation != ActivationKind::silu) fields.refuse("a gate other than silu (\"hidden_act\")");
  config.tied = fields.flag("tie_word_embeddings", false);
  return config;
}

void read_llama_biases(Fields& fields, ModelConfig& config) {
  config.bias = config.qkv_bias = fields.flag("attention_bias", false);
  if (fields.flag("mlp_bias", false) != config.bias) {
    fields.refuse(fmt::format("\"attention_bias\" is {0} and \"mlp_bias\" is {1}: biases are everywhere or nowhere", config.bias,
                              !config.bias));
  }
}

void read_qwen2_parts(Fields& fields, ModelConfig& config) {
  config.qkv_bias = true;
  bool windows = fields.flag("use_sliding_window", false);
  if (const Json* types = fields.present("layer_types"); types != nullptr && types->is_array()) {
    for (const Json& type : types->array()) windows = windows || !type.is_string() || type.string() != "full_attention";
  }
  if (windows) fields.refuse("attention in a sliding window (\"use_sliding_window\" or \"layer_types\")");
}

ModelConfig rasbt_config(Fields& fields) {
  ModelConfig config;
  config.vocabulary = fields.size("vocab_size", most_vocabulary);
  config.block_size = fields.size("context_length", most_positions);
  config.width = fields.size("emb_dim", most_width);
  config.layers = fields.size("n_layers", most_layers);
  config.heads = config.kv_heads = fields.size("n_heads", most_heads);
  config.ffn_width = 4 * config.width;
  share_width(fields, config);
  config.activation = ActivationKind::gelu_tanh;
  config.init = InitKind::pytorch;
  config.bias = true;
  config.qkv_bias = fields.flag("qkv_bias", false);
  config.tied = false;
  return config;
}

/// "model_type", or the first of "architectures" where that is missing.
std::string architecture_of(const Json& json) {
  if (const Json* type = json.find("model_type"); type != nullptr && type->is_string()) return type->string();
  const Json* names = json.find("architectures");
  if (names != nullptr && names->is_array() && !names->array().empty() && names->array().front().is_string()) {
    const std::string& name = names->array().front().string();
    if (name.starts_with("GPT2LMHead")) return "gpt2";
    if (name.starts_with("LlamaForCausalLM")) return "llama";
    if (name.starts_with("Qwen2ForCausalLM")) return "qwen2";
    return name;
  }
  return json.find("emb_dim") != nullptr ? "rasbt" : "";
}

}  // namespace

PublishedModel model_from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) throw UserError(fmt::format("{}: this is no JSON object", what), "give the config.json of a model");
  Fields fields(json, what);
  const std::string architecture = architecture_of(json);
  PublishedModel model;
  if (architecture == "gpt2") {
    model = {Family::gpt2, gpt2_config(fields)};
  } else if (architecture == "llama") {
    model = {Family::llama, llama_config(fields, json, what)};
    read_llama_biases(fields, model.config);
  } else if (architecture == "qwen2") {
    model = {Family::qwen2, llama_config(fields, json, what)};
    read_qwen2_parts(fields, model.config);
  } else if (architecture == "rasbt") {
    model = {Family::rasbt, rasbt_config(fields)};
  } else if (architecture.empty()) {
    throw UserError(fmt::format("{}: it does not say which architecture the model has (\"model_type\")", what),
                    std::string(families));
  } else {
    throw UserError(fmt::format("{}: the architecture \"{}\" is not known", what, architecture), std::string(families));
  }
  if (fields.present("quantization_config") != nullptr) fields.refuse("the weights are quantised", "give the model before that");
  if (fields.problems.empty()) {
    for (const Problem& problem : check(model.config)) fields.refuse(problem.message);
  }
  if (!fields.problems.empty()) throw UserError(std::move(fields.problems));
  return model;
}

}  // namespace lockstep::arch::huggingface
