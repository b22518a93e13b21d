#include "arch/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "arch/gguf_rope.h"
#include "arch/huggingface/fields.h"

namespace lockstep::arch::gguf {
namespace {

using Name = Architecture::Name;
using Key = Architecture::Key;

constexpr auto gpt2_names = std::to_array<Name>({{"transformer.wte", "token_embd"},
                                                 {"transformer.wpe", "position_embd"},
                                                 {"transformer.h.#.ln_1", "blk.#.attn_norm"},
                                                 {"transformer.h.#.attn.c_attn", "blk.#.attn_qkv"},
                                                 {"transformer.h.#.attn.c_proj", "blk.#.attn_output"},
                                                 {"transformer.h.#.ln_2", "blk.#.ffn_norm"},
                                                 {"transformer.h.#.mlp.c_fc", "blk.#.ffn_up"},
                                                 {"transformer.h.#.mlp.c_proj", "blk.#.ffn_down"},
                                                 {"transformer.ln_f", "output_norm"},
                                                 {"lm_head", "output"}});
constexpr auto gpt2_keys = std::to_array<Key>({{"context_length", "n_positions", true},
                                               {"embedding_length", "n_embd", true},
                                               {"feed_forward_length", "n_inner"},
                                               {"block_count", "n_layer", true},
                                               {"attention.head_count", "n_head", true},
                                               {"attention.head_count_kv", "n_head"},
                                               {"attention.layer_norm_epsilon", "layer_norm_epsilon", true}});

constexpr auto llama_names = std::to_array<Name>({{"model.embed_tokens", "token_embd"},
                                                  {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
                                                  {"model.layers.#.self_attn.q_proj", "blk.#.attn_q", true},
                                                  {"model.layers.#.self_attn.k_proj", "blk.#.attn_k", true},
                                                  {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
                                                  {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
                                                  {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
                                                  {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
                                                  {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
                                                  {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
                                                  {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
                                                  {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
                                                  {"model.norm", "output_norm"},
                                                  {"lm_head", "output"}});
constexpr auto phi3_names = std::to_array<Name>({{"model.embed_tokens", "token_embd"},
                                                 {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
                                                 {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
                                                 {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
                                                 {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
                                                 {"model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
                                                 {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
                                                 {"model.norm", "output_norm"},
                                                 {"lm_head", "output"}});
// Models with norms behind branches: each has some of these.
constexpr auto post_norm_names = std::to_array<Name>({{"model.embed_tokens", "token_embd"},
                                                      {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
                                                      {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
                                                      {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
                                                      {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
                                                      {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
                                                      {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
                                                      {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
                                                      {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
                                                      {"model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
                                                      {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
                                                      {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
                                                      {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
                                                      {"model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
                                                      {"model.norm", "output_norm"},
                                                      {"lm_head", "output"}});
constexpr auto llama_keys = std::to_array<Key>({{"context_length", "max_position_embeddings", true},
                                                {"embedding_length", "hidden_size", true},
                                                {"feed_forward_length", "intermediate_size", true},
                                                {"block_count", "num_hidden_layers", true},
                                                {"attention.head_count", "num_attention_heads", true},
                                                {"attention.head_count_kv", "num_key_value_heads"},
                                                {"attention.key_length", "head_dim"},
                                                {"attention.value_length", "head_dim"},
                                                {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
                                                {"rope.dimension_count", "head_dim"},
                                                {"rope.freq_base", "rope_theta"},
                                                {"vocab_size", "vocab_size"}});

template <std::size_t count>
constexpr std::array<Key, llama_keys.size() + count> llama_keys_and(const std::array<Key, count>& more) {
  std::array<Key, llama_keys.size() + count> all{};
  std::ranges::copy(more, std::ranges::copy(llama_keys, all.begin()).out);
  return all;
}
constexpr auto phi3_keys = llama_keys_and(std::to_array<Key>({{"attention.sliding_window", "sliding_window"}}));
constexpr auto gemma2_keys = llama_keys_and(std::to_array<Key>({{"attention.sliding_window", "sliding_window"},
                                                                {"attn_logit_softcapping", "attn_logit_softcapping"},
                                                                {"final_logit_softcapping", "final_logit_softcapping"}}));
constexpr auto gemma3_keys = llama_keys_and(std::to_array<Key>({{"attention.sliding_window", "sliding_window"},
                                                                {"rope.freq_base_swa", "rope_local_base_freq"},
                                                                {"final_logit_softcapping", "final_logit_softcapping"}}));
constexpr auto granite_keys = llama_keys_and(std::to_array<Key>({{"embedding_scale", "embedding_multiplier"},
                                                                 {"residual_scale", "residual_multiplier"},
                                                                 {"attention.scale", "attention_multiplier", true},
                                                                 {"logit_scale", "logits_scaling", true}}));

// Keys of a config.json that GGUF says otherwise, or not at all because llama.cpp knows it of the architecture.
constexpr auto other_keys =
    std::to_array<std::string_view>({"architectures", "model_type", "vocab_size", "hidden_act", "activation_function",
                                     "attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout", "attention_bias", "mlp_bias",
                                     "tie_word_embeddings", "rope_scaling", "no_rope_layers", "hidden_activation"});
// The same of Gemma: check_gemma() has seen that they are llama.cpp's.
constexpr auto gemma_only_keys =
    std::to_array<std::string_view>({"query_pre_attn_scalar", "layer_types", "sliding_window_pattern"});

// Where two have one name in GGUF the first is read.
constexpr std::array<Architecture, 12> architectures{{{"gpt2", "gpt2", gpt2_names, gpt2_keys},
                                                      {"llama", "llama", llama_names, llama_keys, true},
                                                      {"mistral", "llama", llama_names, llama_keys, true},
                                                      {"phi3", "phi3", phi3_names, phi3_keys},
                                                      {"qwen2", "qwen2", llama_names, llama_keys},
                                                      {"qwen3", "qwen3", llama_names, llama_keys},
                                                      {"smollm3", "smollm3", llama_names, llama_keys, true},
                                                      {"gemma", "gemma", llama_names, llama_keys, false, true},
                                                      {"gemma2", "gemma2", post_norm_names, gemma2_keys, false, true},
                                                      {"gemma3_text", "gemma3", post_norm_names, gemma3_keys, false, true},
                                                      {"olmo2", "olmo2", post_norm_names, llama_keys},
                                                      {"granite", "granite", llama_names, granite_keys, true}}};
constexpr std::int64_t smollm3_skips = 4;  // llama.cpp's SmolLM3 has no other (n_no_rope_layer_step)

/// `name` by the pattern `to` where it is one of `from`.
std::optional<std::string> translated(std::string_view name, std::string_view from, std::string_view to) {
  const std::size_t dot = name.rfind('.');
  const std::string_view end = dot == std::string_view::npos ? "" : name.substr(dot);
  if (end != ".weight" && end != ".bias") return std::nullopt;
  const std::string_view start = name.substr(0, dot);
  const std::size_t place = from.find('#');
  if (place == std::string_view::npos) return start == from ? std::optional(fmt::format("{}{}", to, end)) : std::nullopt;
  const std::string_view before = from.substr(0, place), behind = from.substr(place + 1);
  if (start.size() <= before.size() + behind.size() || !start.starts_with(before) || !start.ends_with(behind))
    return std::nullopt;
  const std::string_view block = start.substr(place, start.size() - before.size() - behind.size());
  if (!std::ranges::all_of(block, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  std::string text(to);
  return text.replace(text.find('#'), 1, block) + std::string(end);
}

const Architecture& known(std::string_view name, std::string_view Architecture::* by, std::string_view what) {
  const auto* const found = std::ranges::find(architectures, name, by);
  if (found != architectures.end()) return *found;
  std::string all;
  for (const Architecture& one : architectures) all += fmt::format("{}{}", all.empty() ? "" : ", ", one.*by);
  throw UserError(fmt::format("{}: the architecture {} is not one of GGUF files that are read and written here", what,
                              Json(name).dump().substr(0, 80)),
                  "known are " + all);
}

/// What llama.cpp's gemma2.cpp and gemma3.cpp divide scores by the root of: the models of 27B are known by their layers.
std::int64_t gemma_divisor(const Architecture& architecture, std::int64_t layers, std::int64_t width, std::int64_t heads,
                           std::int64_t head_size) {
  const bool largest = (architecture.name == "gemma2" && layers == 46) || (architecture.name == "gemma3" && layers == 62);
  return largest ? width / heads : head_size;
}

/// Sets the size of a head where no key says it (llama-model.cpp, load_hparams), and what Gemma 2 and 3 divide scores by.
/// The library transformers has other numbers for both.
void set_head_size(const Architecture& architecture, Json& config) {
  const auto number = [&](const char* key) {
    const Json* value = config.find(key);
    return value != nullptr && value->is_int() ? value->integer() : 0;
  };
  const std::int64_t width = number("hidden_size"), heads = number("num_attention_heads");
  if (heads < 1) return;  // config.json's reader says what is wrong
  if (config.find("head_dim") == nullptr) config.set("head_dim", width / heads);
  if (architecture.name == "gemma2" || architecture.name == "gemma3") {
    config.set("query_pre_attn_scalar",
               gemma_divisor(architecture, number("num_hidden_layers"), width, heads, number("head_dim")));
  }
}

/// llama.cpp has much of a Gemma by its architecture: another model would load and babble.
void check_gemma(const Architecture& architecture, const ModelConfig& config, const Json& json) {
  std::vector<Problem> problems;
  const auto demand = [&](bool holds, const std::string& what) {
    if (!holds)
      problems.push_back({fmt::format("llama.cpp's {} has {}", architecture.name, what),
                          "write a Hugging Face folder: leave .gguf out of its name"});
  };
  const bool second = architecture.name == "gemma2", third = architecture.name == "gemma3";
  const std::int64_t every = second ? 2 : 6;
  demand(third || config.tied, "no matrix of the head's own: model.tied=true");
  demand(config.rope.scaling == RopeScaling::none, "no scaling of rotary positions here: model.rope_scaling=none");
  demand(config.window == 0 ? !second : config.global_every == every,
         fmt::format("a window in all but every {}. layer: model.window, model.global_every={}", every, every));
  demand(!second || config.attention_softcap > 0, "a cap of scores: model.attention_softcap");
  demand(!second || config.logit_softcap > 0, "a cap of logits: model.logit_softcap");
  const std::int64_t divisor = gemma_divisor(architecture, config.layers, config.width, config.heads, config.head_size);
  const Json* given = json.find("query_pre_attn_scalar");
  demand(given == nullptr || given->number() == static_cast<double>(divisor),
         fmt::format("scores divided by the root of {}: model.attention_scale", divisor));
  if (!problems.empty()) throw UserError(std::move(problems));
}

/// What a 0 switches off in gemma3.cpp and phi3.cpp (load_arch_hparams): without a window every layer sees all.
constexpr auto switches = std::to_array<std::string_view>({"sliding_window", "final_logit_softcapping"});
bool may_be_zero(const Architecture& architecture, const Key& key) {
  return architecture.name != "gemma2" && std::ranges::find(switches, key.config) != switches.end();
}

void drop_unused(const Architecture& architecture, Json& config) {
  for (const std::string_view key : switches) {
    const Json* value = config.find(key);
    if (value == nullptr ? architecture.name == "gemma3" : value->number() == 0) config.set(std::string(key), nullptr);
  }
}

/// Refuses keys of rotary positions that two architectures read otherwise than the rest. Where its key is false, granite.cpp
/// turns nothing. In layers that see a window, gemma3.cpp obeys the other key, too.
void check_rotation(const Json& pairs, const Architecture& architecture, std::string_view what) {
  for (const auto& [name, key, usual] :
       {std::tuple("granite", "rope.scaling.finetuned", "true"), {"gemma3", "rope.scaling.attn_factor", "1"}}) {
    const Json* value = pairs.find(fmt::format("{}.{}", name, key));
    if (architecture.name == name && huggingface::differs(value, {key, usual, ""})) {
      throw UserError(fmt::format("{}: \"{}.{}\" is {}, but must be {}", what, name, key, huggingface::shown(*value), usual),
                      "take the model from its Hugging Face folder");
    }
  }
}

void set_rotation(const Json& pairs, const Architecture& architecture, const TensorFacts& tensors, std::string_view what,
                  Json& config) {
  check_rotation(pairs, architecture, what);
  constexpr double usual_theta = 10000;  // of every architecture: transformers has others
  const Json* given = config.find("rope_theta");
  const double theta = given != nullptr ? given->number() : usual_theta;
  if (given == nullptr && architecture.name != "gpt2") config.set("rope_theta", usual_theta);
  Json scaling = scaling_of_pairs(pairs, fmt::format("{}.", architecture.name), what);
  if (!tensors.rope_factors.empty()) {
    if (!scaling.is_null()) {
      throw UserError(fmt::format("{}: it has \"{}\" and \"{}.rope.scaling\": two scalings of rotary positions", what,
                                  rope_factors_name, architecture.name),
                      "take the model from its Hugging Face folder");
    }
    scaling = scaling_of_factors(tensors.rope_factors, theta, what);
  }
  if (!scaling.is_null()) config.set("rope_scaling", std::move(scaling));
}

/// The tokens that begin, end and fill texts.
void set_tokens(const Json& pairs, Json& config) {
  for (const auto& [key, name] :
       {std::pair("bos_token_id", "tokenizer.ggml.bos_token_id"), {"pad_token_id", "tokenizer.ggml.padding_token_id"}}) {
    if (const Json* id = pairs.find(name)) config.set(key, *id);
  }
  Json::Array ends;
  for (const std::string_view key : end_keys) {
    if (const Json* id = pairs.find(key)) ends.push_back(*id);
  }
  if (!ends.empty()) config.set("eos_token_id", ends.size() == 1 ? ends.front() : Json(std::move(ends)));
}

/// A list with a number a layer, where all layers have the same one, as that number. Null stays null.
const Json* one_of_layers(const Json* value, const Json& pairs, std::string_view start) {
  const Json* layers = pairs.find(fmt::format("{}block_count", start));
  if (value == nullptr || !value->is_array() || value->array().empty() || layers == nullptr) return value;
  const Json& first = value->array().front();
  const bool alike = std::ranges::all_of(value->array(), [&](const Json& one) { return one.dump() == first.dump(); });
  return alike && layers->dump() == std::to_string(value->array().size()) ? &first : value;
}

const char* remedy_for_no_number(const Json& value) {
  return value.is_array() ? "models whose layers differ are not read" : "give a complete file of a language model";
}

/// A value of a key that says that its part is not there.
bool says_nothing(std::string_view key, const Json& value) {
  if (key.ends_with("attention.causal")) return value.is_bool() && value.boolean();  // false: later tokens are seen, too
  // A 0 of these says much: a base like others, or that no layer sees beyond the window (llama-hparams.cpp, set_swa_pattern).
  if (key.ends_with("_swa") || key.ends_with("sliding_window_pattern")) return value.is_null();
  if (value.is_string()) return value.string() == "none";
  return value.is_null() || (value.is_bool() && !value.boolean()) || (value.is_number() && value.number() == 0);
}

}  // namespace

float Architecture::added_to(const Name& row) const { return gemma && row.gguf.ends_with("norm") ? 1.0F : 0.0F; }

std::optional<TensorName> Architecture::gguf_name(std::string_view huggingface) const {
  for (const Name& row : names) {
    if (auto found = translated(huggingface, row.huggingface, row.gguf))
      return TensorName{std::move(*found), paired && row.turned, added_to(row)};
  }
  return std::nullopt;
}

std::optional<TensorName> Architecture::huggingface_name(std::string_view gguf) const {
  for (const Name& row : names) {
    if (auto found = translated(gguf, row.gguf, row.huggingface))
      return TensorName{std::move(*found), paired && row.turned, added_to(row)};
  }
  return std::nullopt;
}

const Architecture& architecture_of_config(const Json& config, std::string_view what) {
  return known(config.at("model_type").string(), &Architecture::model_type, what);
}

const Architecture& architecture_of_pairs(const Json& pairs, std::string_view what) {
  const Json* name = pairs.find(architecture_key);
  if (name != nullptr && name->is_string()) return known(name->string(), &Architecture::name, what);
  throw UserError(fmt::format("{}: \"{}\" is missing or no text", what, architecture_key), "give the file of a language model");
}

Json pairs_of(const ModelConfig& config, const Json& json) {
  const Architecture& architecture = architecture_of_config(json, "the model");
  if (architecture.name == "gpt2" && config.activation != ActivationKind::gelu_tanh &&
      config.activation != ActivationKind::gelu) {
    throw UserError("llama.cpp computes GPT-2 with GELU alone, and this model has another activation",
                    "write a Hugging Face folder, which says which: leave .gguf out of its name");
  }
  if (architecture.name == "smollm3" && config.rope.skip_every != smollm3_skips) {
    throw UserError(
        fmt::format("llama.cpp leaves every {}. layer of a SmolLM3 without rotation, and this model {}", smollm3_skips,
                    config.rope.skip_every == 0 ? "none" : fmt::format("every {}.", config.rope.skip_every)),
        "write a Hugging Face folder: leave .gguf out of its name");
  }
  const std::int64_t queries = config.heads * config.head_size;
  const bool narrow = architecture.name == "olmo2" || architecture.name == "qwen2" || architecture.name == "phi3";
  if (narrow && queries != config.width) {
    throw UserError(fmt::format("llama.cpp's {} has queries as wide as the model, {}, and this model's are {} wide",
                                architecture.name, config.width, queries),
                    "write a Hugging Face folder: leave .gguf out of its name");
  }
  if (architecture.gemma) check_gemma(architecture, config, json);
  Json pairs(Json::Object{{std::string(architecture_key), architecture.name}});
  for (const Key& key : architecture.keys) {
    const Json* value = json.find(key.config);
    const bool inner = value != nullptr && value->is_null() && key.config == "n_inner";
    if (value == nullptr || (value->is_null() && !inner)) continue;
    pairs.set(fmt::format("{}.{}", architecture.name, key.gguf), inner ? Json(config.ffn_width) : *value);
  }
  const Json scaling = scaling_pairs(config.rope);
  for (const auto& [key, value] : scaling.object()) pairs.set(fmt::format("{}.{}", architecture.name, key), value);
  for (const auto& [key, value] : json.object()) {
    const bool known = std::ranges::find(architecture.keys, key, &Key::config) != architecture.keys.end() ||
                       std::ranges::find(other_keys, key) != other_keys.end() ||
                       (architecture.gemma && std::ranges::find(gemma_only_keys, key) != gemma_only_keys.end());
    if (known || says_nothing(key, value)) continue;
    throw UserError(
        fmt::format("GGUF's architecture \"{}\" cannot say \"{}\": {}", architecture.name, key, value.dump().substr(0, 80)),
        "write a Hugging Face folder: leave .gguf out of its name");
  }
  return pairs;
}

Json config_of(const Json& pairs, const TensorFacts& tensors, std::string_view what) {
  const Architecture& architecture = architecture_of_pairs(pairs, what);
  std::vector<Problem> problems;
  const auto refuse = [&](const std::string& problem, const char* remedy) {
    problems.push_back({fmt::format("{}: {}", what, problem), remedy});
  };
  Json config(Json::Object{{"model_type", architecture.model_type}});
  const std::string start = fmt::format("{}.", architecture.name);
  for (const Key& key : architecture.keys) {
    const Json* value = one_of_layers(pairs.find(start + std::string(key.gguf)), pairs, start);
    if (value == nullptr) {
      if (key.required) refuse(fmt::format("\"{}{}\" is missing", start, key.gguf), "give a complete file of a language model");
    } else if (!value->is_number()) {
      refuse(fmt::format("\"{}{}\" is {}, but must be a number", start, key.gguf, value->dump().substr(0, 80)),
             remedy_for_no_number(*value));
    } else if (!(value->number() > 0 || (value->number() == 0 && may_be_zero(architecture, key)))) {
      refuse(fmt::format("\"{}{}\" is {}, but must be above 0", start, key.gguf, huggingface::shown(*value)),
             "take the model from its Hugging Face folder");
    } else if (const Json* before = config.find(key.config); before != nullptr && before->number() != value->number()) {
      refuse(fmt::format("\"{}{}\" is {} where {} is needed", start, key.gguf, value->dump(), before->dump()),
             "heads of one size, turned as a whole, are read");
    } else {
      config.set(std::string(key.config), *value);
    }
  }
  for (const auto& [key, value] : pairs.object()) {
    const std::string_view rest = key.starts_with(start) ? std::string_view(key).substr(start.size()) : "";
    const bool known = is_scaling_key(rest) || std::ranges::find(architecture.keys, rest, &Key::gguf) != architecture.keys.end();
    if (rest.empty() || says_nothing(rest, value) || known) continue;
    refuse(fmt::format("{} is {}: this key is not known", Json(key).dump(), value.dump().substr(0, 80)),
           "take the model from its Hugging Face folder");
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  set_head_size(architecture, config);
  config.set("vocab_size", tensors.vocabulary);
  config.set("tie_word_embeddings", !tensors.head);
  if (tensors.biases && (architecture.name == "llama" || architecture.name == "granite"))
    config.set("attention_bias", true).set("mlp_bias", true);
  drop_unused(architecture, config);
  set_rotation(pairs, architecture, tensors, what, config);
  set_tokens(pairs, config);
  return config;
}

}  // namespace lockstep::arch::gguf
