// From a config.json to a model.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "arch/huggingface/config_json.h"
#include "arch/huggingface/generation_json.h"
#include "arch/huggingface/known_keys.h"

namespace lockstep::arch::huggingface {
namespace {

constexpr std::string_view families = "known are gpt2, llama, qwen2, and rasbt's GPT-2 (its settings with \"emb_dim\")";

struct FamilyName {
  std::string_view name;
  Family family;
};
constexpr std::array<FamilyName, 4> family_names{
    {{"gpt2", Family::gpt2}, {"llama", Family::llama}, {"qwen2", Family::qwen2}, {"rasbt", Family::rasbt}}};

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

/// Beside its own names GPT-2's configuration has those that transformers maps to them (GPT2Config.attribute_map), and n_ctx.
ModelConfig gpt2_config(Fields& fields) {
  ModelConfig config;
  config.vocabulary = fields.size("vocab_size", most_vocabulary);
  config.block_size = fields.size(fields.one_of({"n_positions", "n_ctx", "max_position_embeddings"}), most_positions);
  config.width = fields.size(fields.one_of({"n_embd", "hidden_size"}), most_width);
  config.layers = fields.size(fields.one_of({"n_layer", "num_hidden_layers"}), most_layers);
  config.heads = config.kv_heads = fields.size(fields.one_of({"n_head", "num_attention_heads"}), most_heads);
  config.ffn_width = fields.size("n_inner", most_ffn, 4 * config.width);
  share_width(fields, config);
  read_activation(fields, config, "activation_function", fields.text("activation_function", "gelu_new"));
  config.norm_eps = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  config.tied = fields.flag("tie_word_embeddings", true);
  config.bias = config.qkv_bias = true;
  return config;
}

/// What one of the objects says about rotary positions. `original`: the key beside it that says the same as its own.
Rope rope_of(Fields& fields, const Json& json, std::string_view key, std::string_view what) {
  Rope rope;
  Fields inner(json, what, std::string(key) + ".");
  rope.theta = inner.positive("rope_theta", rope.theta);
  const std::string type = inner.text(inner.one_of({"rope_type", "type"}), "default");
  if (type != "default" && type != "llama3") {  // its other keys are nothing to complain of
    inner.refuse(fmt::format("\"{}.rope_type\": rotary positions of type \"{}\" are not known", key, type),
                 "known are default and llama3");
    fields.take(inner);
    return rope;
  }
  if (type == "llama3") {
    rope.scaling = RopeScaling::llama3;
    rope.factor = inner.positive("factor");
    rope.low_freq_factor = inner.positive("low_freq_factor");
    rope.high_freq_factor = inner.positive("high_freq_factor");
    const Json* beside = fields.present("original_max_position_embeddings");
    const bool within = inner.present("original_max_position_embeddings") != nullptr;
    Fields& spelt = beside != nullptr && !within ? fields : inner;
    rope.original_block_size = spelt.size("original_max_position_embeddings", most_positions);
    if (beside != nullptr && within &&
        fields.size("original_max_position_embeddings", most_positions) != rope.original_block_size)
      inner.refuse(fmt::format("\"original_max_position_embeddings\" is {} and in \"{}\" {}, but they are one thing",
                               shown(*beside), key, rope.original_block_size),
                   "leave the wrong one out");
  }
  inner.demand(rope_keys().only);
  inner.pass(rope_keys().harmless);
  inner.refuse_unknown("leave it out, if it changes nothing of what the model computes");
  fields.take(inner);
  return rope;
}

/// The object of that name; null where it is missing or empty.
const Json* rope_object(Fields& fields, std::string_view key) {
  const Json* value = fields.present(key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) return fields.wrong(key, *value, "an object"), nullptr;
  return value->object().empty() ? nullptr : value;
}

/// All that say a base say the same one.
void agree_on_theta(Fields& fields, std::initializer_list<std::pair<const char*, const Json*>> places, Rope& rope) {
  const Json* first = nullptr;
  std::string_view where;
  for (const auto& [name, holder] : places) {
    const Json* theta = holder != nullptr ? holder->find("rope_theta") : nullptr;
    if (theta == nullptr || !theta->is_number()) continue;
    if (first != nullptr && first->number() != theta->number()) {
      fields.refuse(fmt::format("\"{}rope_theta\" is {} and \"{}rope_theta\" is {}, but they are one thing", where, shown(*first),
                                name, shown(*theta)),
                    "leave the wrong one out");
      return;
    }
    if (first == nullptr) where = name;
    first = theta;
    rope.theta = theta->number();
  }
}

/// transformers 5 has all about rotary positions in "rope_parameters"; before, "rope_theta" stood beside "rope_scaling". Where
/// both objects are there it takes "rope_scaling" (modeling_rope_utils.py, convert_rope_params_to_dict: `rope_scaling or
/// self.rope_parameters`); what the other says beside a base must then be the same.
void read_rope(Fields& fields, const Json& json, ModelConfig& config, std::string_view what) {
  fields.present("original_max_position_embeddings");
  fields.positive("rope_theta", 1);
  const Json* scaling = rope_object(fields, "rope_scaling");
  const Json* parameters = rope_object(fields, "rope_parameters");
  if (parameters != nullptr) config.rope = rope_of(fields, *parameters, "rope_parameters", what);
  if (scaling != nullptr) {
    const Rope other = config.rope;
    config.rope = rope_of(fields, *scaling, "rope_scaling", what);
    config.rope.theta = other.theta;
    if (parameters != nullptr && other.scaling != RopeScaling::none && !(other == config.rope)) {
      fields.refuse("\"rope_scaling\" and \"rope_parameters\" say different things about rotary positions",
                    "leave the wrong one out");
    }
  }
  agree_on_theta(fields, {{"", &json}, {"rope_parameters.", parameters}, {"rope_scaling.", scaling}}, config.rope);
  const auto says = [](const Json* holder) {
    const Json* theta = holder != nullptr ? holder->find("rope_theta") : nullptr;
    return theta != nullptr && !theta->is_null();
  };
  if (parameters != nullptr && !says(&json) && !says(parameters) && !says(scaling))
    fields.refuse("\"rope_parameters.rope_theta\" is missing");
  // transformers goes on with its default then, which cannot be meant.
  if (scaling != nullptr && says(parameters) && !says(&json) && !says(scaling) && config.rope.theta != Rope().theta) {
    fields.refuse(fmt::format("\"rope_parameters.rope_theta\" is {}, but \"rope_scaling\", which counts in its place, says none",
                              config.rope.theta),
                  "say it in \"rope_scaling\" too");
  }
}

void read_layer_types(Fields& fields, const ModelConfig& config) {
  const Json* types = fields.present("layer_types");
  if (types == nullptr) return;
  const std::vector<std::string> names = fields.texts("layer_types");
  const auto other = std::ranges::find_if(names, [](const std::string& name) { return name != "full_attention"; });
  if (other != names.end())
    fields.refuse(fmt::format("\"layer_types\" has {}: sliding windows and the like", Json(*other).dump()));
  if (!names.empty() && std::ssize(names) != config.layers)
    fields.refuse(fmt::format("\"layer_types\" names {} layers of {}", names.size(), config.layers), "name each layer");
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
  read_layer_types(fields, config);
  return config;
}

void read_llama_biases(Fields& fields, ModelConfig& config) {
  config.bias = config.qkv_bias = fields.flag("attention_bias", false);
  if (fields.flag("mlp_bias", false) != config.bias) {
    fields.refuse(fmt::format("\"attention_bias\" is {0} and \"mlp_bias\" is {1}: biases are everywhere or nowhere", config.bias,
                              !config.bias));
  }
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
std::string architecture_of(Fields& fields, const Json& json) {
  if (fields.present("model_type") != nullptr) return fields.text("model_type", "no text");
  const Json* names = fields.present("architectures");
  if (names != nullptr && names->is_array() && !names->array().empty() && names->array().front().is_string()) {
    const std::string& name = names->array().front().string();
    if (name.starts_with("GPT2LMHead")) return "gpt2";
    if (name.starts_with("LlamaForCausalLM")) return "llama";
    if (name.starts_with("Qwen2ForCausalLM")) return "qwen2";
    return name;
  }
  return json.find("emb_dim") != nullptr ? "rasbt" : "";
}

/// Whether the model is the class that the family computes: others have other heads, or other attention.
void check_classes(Fields& fields, std::span<const std::string_view> known) {
  for (const std::string& name : fields.texts("architectures")) {
    if (std::ranges::find(known, name) != known.end()) continue;
    fields.refuse(fmt::format("\"architectures\" has {}", Json(name).dump()),
                  known.empty() ? "leave the key out" : fmt::format("what is computed is {}", known.front()));
  }
}

/// What no shape follows from.
void check_other_keys(Fields& fields, Family family) {
  for (const KnownKeys& keys : {common_keys(), keys_of(family)}) {
    fields.demand(keys.only);
    fields.pass(keys.harmless);
  }
  check_classes(fields, keys_of(family).classes);
  fields.text(fields.one_of({"dtype", "torch_dtype"}), "");
  fields.numbers("eos_token_id");
  fields.pass(generation_keys());
  fields.refuse_unknown("leave it out, if it changes nothing of what the model computes; else this version does not compute it");
}

ModelConfig config_of(Fields& fields, const Json& json, std::string_view what, Family family) {
  ModelConfig config;
  switch (family) {
    case Family::gpt2:
      return gpt2_config(fields);
    case Family::llama:
      config = llama_config(fields, json, what);
      read_llama_biases(fields, config);
      return config;
    case Family::qwen2:
      config = llama_config(fields, json, what);
      config.qkv_bias = true;
      return config;
    case Family::rasbt:
    case Family::rasbt_fused:
      return rasbt_config(fields);
  }
  throw BrokenRule("every family has a configuration");
}

}  // namespace

PublishedModel model_from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) throw UserError(fmt::format("{}: this is no JSON object", what), "give the config.json of a model");
  Fields fields(json, what);
  const std::string architecture = architecture_of(fields, json);
  if (!fields.problems.empty()) throw UserError(std::move(fields.problems));
  const auto family = std::ranges::find(family_names, architecture, &FamilyName::name);
  if (architecture.empty()) {
    throw UserError(fmt::format("{}: it does not say which architecture the model has (\"model_type\")", what),
                    std::string(families));
  }
  if (family == family_names.end())
    throw UserError(fmt::format("{}: the architecture {} is not known", what, Json(architecture).dump()), std::string(families));
  PublishedModel model{family->family, config_of(fields, json, what, family->family)};
  check_other_keys(fields, model.family);
  if (fields.problems.empty()) {
    for (const Problem& problem : check(model.config)) fields.refuse(problem.message);
  }
  if (!fields.problems.empty()) throw UserError(std::move(fields.problems));
  return model;
}

}  // namespace lockstep::arch::huggingface
