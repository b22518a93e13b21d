// From a config.json to a model.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "arch/huggingface/config_json.h"
#include "arch/huggingface/generation_json.h"
#include "arch/huggingface/known_keys.h"
#include "arch/huggingface/rope_json.h"

namespace lockstep::arch::huggingface {
namespace {

constexpr std::string_view families =
    "known are gemma, gemma2, gemma3_text, gpt2, granite, llama, mistral, olmo2, phi3, qwen2, qwen3, smollm3, and rasbt's GPT-2 "
    "(its settings with \"emb_dim\")";

// Sizes beyond these are no model's; they keep products of two of them within 64 bits.
constexpr std::int64_t most_layers = 4096, most_heads = 65536, most_head_size = 256, most_width = 1 << 20, most_ffn = 1 << 24,
                       most_vocabulary = 1 << 27;

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

/// What Llama's kin do each in their own way.
struct LlamaKind {
  Family family;
  double theta = 10000, norm_eps = 1e-6;  ///< where config.json says none
  std::int64_t head_size = 0;             ///< the same; 0: the width / heads
  enum class Biases : std::uint8_t { none, qkv, by_keys } biases = Biases::none;
  /// Who sees a window: none; where "sliding_window" is not null, all; where "use_sliding_window" is, layers from
  /// "max_window_layers" on; all but every "sliding_window_pattern"-th layer.
  enum class Windows : std::uint8_t { none, all, behind, pattern } windows = Windows::none;
  std::int64_t window = 0;                ///< without "sliding_window"
  std::int64_t pattern = 0;               ///< without "sliding_window_pattern"
  double scores_cap = 0, logits_cap = 0;  ///< without "attn_logit_softcapping", "final_logit_softcapping"
};
constexpr std::array llama_kinds{
    LlamaKind{.family = Family::llama, .biases = LlamaKind::Biases::by_keys},
    LlamaKind{.family = Family::mistral, .windows = LlamaKind::Windows::all, .window = 4096},
    LlamaKind{.family = Family::phi3, .norm_eps = 1e-5, .windows = LlamaKind::Windows::all},
    LlamaKind{.family = Family::qwen2, .biases = LlamaKind::Biases::qkv, .windows = LlamaKind::Windows::behind, .window = 4096},
    LlamaKind{.family = Family::qwen3, .head_size = 128, .windows = LlamaKind::Windows::behind, .window = 4096},
    LlamaKind{.family = Family::smollm3, .theta = 2e6, .biases = LlamaKind::Biases::by_keys},
    LlamaKind{.family = Family::gemma, .head_size = 256},
    LlamaKind{.family = Family::gemma2,
              .head_size = 256,
              .windows = LlamaKind::Windows::pattern,
              .window = 4096,
              .pattern = 2,
              .scores_cap = 50,
              .logits_cap = 30},
    LlamaKind{.family = Family::gemma3,
              .theta = 1e6,
              .head_size = 256,
              .windows = LlamaKind::Windows::pattern,
              .window = 4096,
              .pattern = 6},
    LlamaKind{.family = Family::olmo2, .norm_eps = 1e-5},
    LlamaKind{.family = Family::granite, .biases = LlamaKind::Biases::by_keys},
};

/// Which layers see the window alone, from "layer_types" where it is there.
std::vector<bool> windowed_layers(Fields& fields, const LlamaKind& kind, const ModelConfig& config) {
  const auto layers = static_cast<std::size_t>(config.layers);
  std::vector<bool> windowed(layers, kind.windows == LlamaKind::Windows::all);
  if (kind.windows == LlamaKind::Windows::behind) {
    const Json* said = fields.present("max_window_layers");
    if (said != nullptr && !(said->is_int() && said->integer() >= 0))
      return fields.wrong("max_window_layers", *said, "a whole number of at least 0"), windowed;
    const std::int64_t first = said != nullptr ? said->integer() : 28;
    for (std::size_t i = 0; i < layers; ++i) windowed[i] = static_cast<std::int64_t>(i) >= first;
  }
  if (kind.windows == LlamaKind::Windows::pattern) {
    const auto every = static_cast<std::size_t>(fields.size("sliding_window_pattern", most_layers, kind.pattern));
    for (std::size_t i = 0; i < layers; ++i) windowed[i] = (i + 1) % every != 0;
  }
  const std::vector<std::string> names = fields.texts("layer_types");
  // transformers reads the pattern of Gemma 3 alone (configuration_gemma2.py).
  if (kind.family == Family::gemma2 && names.empty() && fields.size("sliding_window_pattern", most_layers, 2) != 2) {
    fields.refuse("\"sliding_window_pattern\" of a Gemma 2 is not 2, which transformers passes over",
                  "name each layer in \"layer_types\"");
  }
  if (names.empty()) return windowed;
  if (names.size() != layers) {
    fields.refuse(fmt::format("\"layer_types\" names {} layers of {}", names.size(), config.layers), "name each layer");
    return windowed;
  }
  for (std::size_t i = 0; i < layers; ++i) {
    const bool local = names[i] == "sliding_attention" && kind.windows != LlamaKind::Windows::none;
    if (!local && names[i] != "full_attention") {
      fields.refuse(fmt::format("\"layer_types\" has {}: sliding windows and the like", Json(names[i]).dump()));
      return windowed;
    }
    windowed[i] = local;
  }
  return windowed;
}

/// Every so many layers one is without what `marked` says of a layer; nothing where layers are not so.
std::optional<std::int64_t> every_of(const std::vector<bool>& marked) {
  if (std::ranges::find(marked, false) == marked.end()) return 0;
  const std::int64_t every = std::ranges::find(marked, false) - marked.begin() + 1;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i] == ((static_cast<std::int64_t>(i) + 1) % every == 0)) return std::nullopt;
  }
  return every;
}

void read_windows(Fields& fields, const Json& json, const LlamaKind& kind, ModelConfig& config) {
  const std::vector<bool> windowed = windowed_layers(fields, kind, config);
  if (kind.windows == LlamaKind::Windows::none) return;  // a window is no key of these
  const bool used = kind.windows != LlamaKind::Windows::behind || fields.flag("use_sliding_window", false);
  const Json* given = json.find("sliding_window");
  const bool none = given != nullptr && given->is_null();
  const std::int64_t window =
      fields.present("sliding_window") == nullptr ? kind.window : fields.size("sliding_window", most_positions);
  if (kind.family == Family::phi3 && !none && window > 0 && std::ranges::find(windowed, false) != windowed.end()) {
    fields.refuse("\"layer_types\" of a Phi-3 has layers without a window, and transformers gives each layer \"sliding_window\"",
                  "leave one of the two keys out");
  }
  if (!used || none || window == 0 || std::ranges::find(windowed, true) == windowed.end()) return;
  const std::optional<std::int64_t> every = every_of(windowed);
  if (!every) return fields.refuse("layers that see a window are not all, nor all but every n-th one");
  config.window = window;
  config.global_every = *every;
}

/// SmolLM3's layers that turn nothing: a list with a 0 for each (no list: every no_rope_layer_interval-th).
void read_unturned_layers(Fields& fields, ModelConfig& config) {
  const std::int64_t interval = fields.size("no_rope_layer_interval", most_layers, 4);
  std::vector<bool> turned;
  for (const std::int64_t one : fields.numbers("no_rope_layers")) turned.push_back(one != 0);
  config.rope.skip_every = interval;
  if (turned.empty()) return;
  if (std::ssize(turned) < config.layers)
    return fields.refuse(fmt::format("\"no_rope_layers\" names {} layers of {}", turned.size(), config.layers),
                         "name each layer");
  turned.resize(static_cast<std::size_t>(config.layers));
  const std::optional<std::int64_t> every = every_of(turned);
  if (!every) return fields.refuse("\"no_rope_layers\": layers without rotation are not every n-th one");
  config.rope.skip_every = *every;
}

void read_gate(Fields& fields, const LlamaKind& kind, ModelConfig& config) {
  const bool gemma = is_gemma(kind.family);
  // The first Gemma has two names: transformers 4.38 to 4.56 read "hidden_activation" where it is there.
  const bool both = kind.family == Family::gemma && fields.present("hidden_activation") != nullptr;
  const char* key = both || has_hidden_activation(kind.family) ? "hidden_activation" : "hidden_act";
  const std::string name = fields.text(key, gemma ? "gelu_pytorch_tanh" : "silu");
  if (both) fields.text("hidden_act", "");
  config.gated = true;
  read_activation(fields, config, key, name);
  // Published files of Gemma say "gelu" and mean the approximation (GemmaConfig.__post_init__).
  if (kind.family == Family::gemma && name == "gelu") config.activation = ActivationKind::gelu_tanh;
  const ActivationKind computed = gemma ? ActivationKind::gelu_tanh : ActivationKind::silu;
  if (config.activation != computed)
    fields.refuse(fmt::format("a gate other than {} (\"{}\")", gemma ? "GELU by tanh" : "silu", key));
}

/// What Gemma has beside Llama's parts.
void read_gemma(Fields& fields, const Json& json, const LlamaKind& kind, ModelConfig& config) {
  config.unit_offset = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  config.post_norm = has_post_norms(kind.family);
  if (!config.post_norm) return;
  config.qk_norm = kind.family == Family::gemma3;
  // A null is no cap, and what is missing is the family's.
  const auto cap = [&](const char* key, double usual) {
    const Json* given = json.find(key);
    const bool none = given != nullptr && (given->is_null() || (given->is_bool() && !given->boolean()));
    return none || (given == nullptr && usual == 0) ? 0.0 : fields.positive(key, usual);
  };
  config.attention_softcap = cap("attn_logit_softcapping", kind.scores_cap);
  if (kind.family == Family::gemma3 && config.attention_softcap > 0) {  // modeling_gemma3.py reads it and goes no further
    fields.refuse("\"attn_logit_softcapping\" of a Gemma 3, which transformers passes over", "make it null");
  }
  config.logit_softcap = cap("final_logit_softcapping", kind.logits_cap);
  const std::int64_t of = fields.size("query_pre_attn_scalar", most_width, 256);
  if (of != config.head_size) config.attention_scale = 1 / std::sqrt(static_cast<double>(of));
}

/// What Granite multiplies by.
void read_granite(Fields& fields, ModelConfig& config) {
  config.embedding_scale = fields.positive("embedding_multiplier", 1);
  config.residual_scale = fields.positive("residual_multiplier", 1);
  config.attention_scale = fields.positive("attention_multiplier", 1);
  config.logit_scale = 1 / fields.positive("logits_scaling", 1);
}

/// Llama, and what others have in common with it.
ModelConfig llama_config(Fields& fields, const Json& json, std::string_view what, const LlamaKind& kind) {
  ModelConfig config;
  config.vocabulary = fields.size("vocab_size", most_vocabulary);
  config.block_size = fields.size("max_position_embeddings", most_positions);
  config.width = fields.size("hidden_size", most_width);
  config.layers = fields.size("num_hidden_layers", most_layers);
  config.heads = fields.size("num_attention_heads", most_heads);
  config.kv_heads = fields.size("num_key_value_heads", most_heads, config.heads);
  config.ffn_width = fields.size("intermediate_size", most_ffn);
  if (fields.present("head_dim") == nullptr && kind.head_size == 0) {
    share_width(fields, config);
  } else {
    config.head_size = fields.size("head_dim", most_head_size, kind.head_size);
  }
  config.norm = NormKind::rmsnorm;
  config.norm_eps = static_cast<float>(fields.positive("rms_norm_eps", kind.norm_eps));
  config.position = PositionKind::rope;
  config.rope.theta = kind.theta;
  if (kind.family == Family::gemma3) {
    read_layered_rope(fields, json, config, what, 10000);
  } else {
    read_rope(fields, json, config, what);
  }
  read_gate(fields, kind, config);
  config.tied = fields.flag("tie_word_embeddings", kind.family == Family::smollm3 || is_gemma(kind.family));
  config.qk_norm_whole = kind.family == Family::olmo2;
  config.qk_norm = kind.family == Family::qwen3 || config.qk_norm_whole;
  config.pre_norm = kind.family != Family::olmo2;
  config.post_norm = !config.pre_norm;
  if (kind.family == Family::granite) read_granite(fields, config);
  config.qkv_bias = kind.biases == LlamaKind::Biases::qkv;
  if (is_gemma(kind.family)) read_gemma(fields, json, kind, config);
  read_windows(fields, json, kind, config);
  if (config.window == 0) config.rope.local_theta = 0;
  if (kind.family == Family::smollm3) read_unturned_layers(fields, config);
  if (kind.family == Family::phi3 && config.rope.scaling == RopeScaling::longrope && fields.problems.empty() &&
      fields.present("original_max_position_embeddings") == nullptr) {
    fields.refuse("\"original_max_position_embeddings\" is missing beside the scaling, where transformers reads a Phi-3's",
                  "say it there, too");
  }
  if (kind.family == Family::phi3 && config.rope.scaling != RopeScaling::none && config.rope.scaling != RopeScaling::longrope)
    fields.refuse("Phi-3 with a longer context other than by \"longrope\" (\"rope_scaling\")");
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
    for (const Family family : all_families()) {
      if (std::ranges::find(keys_of(family).classes, name) != keys_of(family).classes.end()) return std::string(name_of(family));
    }
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
  if (family == Family::gpt2) return gpt2_config(fields);
  const auto kind = std::ranges::find(llama_kinds, family, &LlamaKind::family);
  if (kind == llama_kinds.end()) return rasbt_config(fields);
  ModelConfig config = llama_config(fields, json, what, *kind);
  if (kind->biases == LlamaKind::Biases::by_keys) read_llama_biases(fields, config);
  return config;
}

}  // namespace

PublishedModel model_from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) throw UserError(fmt::format("{}: this is no JSON object", what), "give the config.json of a model");
  Fields fields(json, what);
  const std::string architecture = architecture_of(fields, json);
  if (!fields.problems.empty()) throw UserError(std::move(fields.problems));
  const std::optional<Family> family = family_named(architecture);
  if (architecture.empty()) {
    throw UserError(fmt::format("{}: it does not say which architecture the model has (\"model_type\")", what),
                    std::string(families));
  }
  if (!family)
    throw UserError(fmt::format("{}: the architecture {} is not known", what, Json(architecture).dump()), std::string(families));
  PublishedModel model{*family, config_of(fields, json, what, *family)};
  check_other_keys(fields, model.family);
  if (fields.problems.empty()) {
    for (const Problem& problem : check(model.config)) fields.refuse(problem.message);
  }
  if (!fields.problems.empty()) throw UserError(std::move(fields.problems));
  const bool llama = std::ranges::find(llama_kinds, *family, &LlamaKind::family) != llama_kinds.end();
  if (llama && family_of(model.config) != *family) model.config.family = architecture;
  return model;
}

}  // namespace lockstep::arch::huggingface
