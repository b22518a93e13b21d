#include "arch/config_json.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>

#include "arch/adapter.h"

namespace lockstep::arch {
namespace {

template <class Value>
struct Name {
  std::string_view name;
  Value value;
};

constexpr std::array<Name<ActivationKind>, 5> activations{{{"none", ActivationKind::none},
                                                           {"gelu", ActivationKind::gelu},
                                                           {"gelu_tanh", ActivationKind::gelu_tanh},
                                                           {"relu", ActivationKind::relu},
                                                           {"silu", ActivationKind::silu}}};
constexpr std::array<Name<NormKind>, 2> norms{{{"layernorm", NormKind::layernorm}, {"rmsnorm", NormKind::rmsnorm}}};
constexpr std::array<Name<PositionKind>, 2> positions{{{"learned", PositionKind::learned}, {"rope", PositionKind::rope}}};
constexpr std::array<Name<RopeScaling>, 6> scalings{{{"none", RopeScaling::none},
                                                     {"linear", RopeScaling::linear},
                                                     {"dynamic", RopeScaling::dynamic},
                                                     {"llama3", RopeScaling::llama3},
                                                     {"yarn", RopeScaling::yarn},
                                                     {"longrope", RopeScaling::longrope}}};
constexpr std::array<Name<InitKind>, 4> inits{
    {{"gpt2", InitKind::gpt2}, {"pytorch", InitKind::pytorch}, {"small", InitKind::small}, {"smaller", InitKind::smaller}}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  throw BrokenRule("every part has a name");
}

template <class Value, std::size_t N>
Value value_in(const std::array<Name<Value>, N>& table, const Json& json, std::string_view key, std::string_view what) {
  const std::string& name = json.at(key).string();
  for (const auto& row : table) {
    if (row.name == name) return row.value;
  }
  throw UserError(fmt::format("{}: \"{}\" is \"{}\", which this version does not know", what, key, name),
                  "use a version of lockstep that has it");
}

Json rope_to_json(const Rope& rope) {
  Json json;
  json.set("theta", rope.theta);
  json.set("scaling", name_in(scalings, rope.scaling));
  if (rope.skip_every > 0) json.set("skip_every", rope.skip_every);
  if (rope.local_theta > 0) json.set("local_theta", rope.local_theta);
  if (rope.scaling == RopeScaling::none) return json;
  json.set("factor", rope.factor);
  json.set("low_freq_factor", rope.low_freq_factor);
  json.set("high_freq_factor", rope.high_freq_factor);
  json.set("original_block_size", rope.original_block_size);
  if (rope.attention_factor != 1) json.set("attention_factor", rope.attention_factor);
  if (rope.scaling != RopeScaling::longrope) return json;
  json.set("short_factors", Json::Array(rope.short_factors.begin(), rope.short_factors.end()));
  json.set("long_factors", Json::Array(rope.long_factors.begin(), rope.long_factors.end()));
  return json;
}

Rope rope_from_json(const Json& json, std::string_view what) {
  Rope rope;
  rope.theta = json.at("theta").number();
  rope.scaling = value_in(scalings, json, "scaling", what);
  if (const Json* every = json.find("skip_every")) rope.skip_every = every->integer();
  if (const Json* theta = json.find("local_theta")) rope.local_theta = theta->number();
  if (rope.scaling == RopeScaling::none) return rope;
  rope.factor = json.at("factor").number();
  rope.low_freq_factor = json.at("low_freq_factor").number();
  rope.high_freq_factor = json.at("high_freq_factor").number();
  rope.original_block_size = json.at("original_block_size").integer();
  if (const Json* factor = json.find("attention_factor")) rope.attention_factor = factor->number();
  if (rope.scaling != RopeScaling::longrope) return rope;
  for (const Json& factor : json.at("short_factors").array()) rope.short_factors.push_back(factor.number());
  for (const Json& factor : json.at("long_factors").array()) rope.long_factors.push_back(factor.number());
  return rope;
}

Json adapter_to_json(const Adapter& adapter) {
  return Json::Object{{"rank", adapter.rank},
                      {"alpha", adapter.alpha},
                      {"rank_stabilised", adapter.rank_stabilised},
                      {"targets", words_of(adapter.targets)},
                      {"whole", std::string(word_of(adapter.whole))}};
}

Adapter adapter_from_json(const Json& json, std::string_view what) {
  const std::string& words = json.at("targets").string();
  const std::optional<AdapterTargets> targets = adapter_targets(words);
  if (!targets) {
    throw UserError(fmt::format("{}: \"targets\" of the adapter is \"{}\", which this version does not know", what, words),
                    "use a version of lockstep that has it");
  }
  const Json* ends = json.find("whole");  // which earlier versions did not have
  const std::optional<WholeEnds> whole = ends == nullptr ? WholeEnds::none : choice_from<WholeEnds>(ends->string());
  if (!whole) {
    throw UserError(fmt::format("{}: \"whole\" of the adapter is \"{}\", which this version does not know", what, ends->string()),
                    "use a version of lockstep that has it");
  }
  return {.rank = json.at("rank").integer(),
          .alpha = json.at("alpha").number(),
          .rank_stabilised = json.at("rank_stabilised").boolean(),
          .targets = *targets,
          .whole = *whole};
}

}  // namespace

Json to_json(const ModelConfig& config) {
  Json json;
  json.set("n_layer", config.layers);
  json.set("n_head", config.heads);
  json.set("n_kv_head", config.kv_heads);
  json.set("n_embd", config.width);
  json.set("head_dim", config.head_size);
  json.set("ffn_width", config.ffn_width);
  json.set("block_size", config.block_size);
  json.set("vocab_size", config.vocabulary);
  json.set("norm", name_in(norms, config.norm));
  json.set("position", name_in(positions, config.position));
  if (config.position == PositionKind::rope) json.set("rope", rope_to_json(config.rope));
  json.set("activation", name_in(activations, config.activation));
  json.set("gated", config.gated);
  json.set("init", name_in(inits, config.init));
  json.set("bias", config.bias);
  json.set("qkv_bias", config.qkv_bias);
  // What few models have is written where they have it, so that others' files stay as they were.
  if (config.qk_norm) json.set("qk_norm", true);
  if (config.qk_norm_whole) json.set("qk_norm_whole", true);
  if (!config.pre_norm) json.set("pre_norm", false);
  if (config.post_norm) json.set("post_norm", true);
  if (config.unit_offset) json.set("norm_unit_offset", true);
  if (config.embedding_scale != 1) json.set("embedding_scale", config.embedding_scale);
  if (config.residual_scale != 1) json.set("residual_scale", config.residual_scale);
  if (config.logit_scale != 1) json.set("logit_scale", config.logit_scale);
  if (config.attention_scale > 0) json.set("attention_scale", config.attention_scale);
  if (config.attention_softcap > 0) json.set("attention_softcap", config.attention_softcap);
  if (config.logit_softcap > 0) json.set("logit_softcap", config.logit_softcap);
  if (config.window > 0) json.set("window", config.window);
  if (config.global_every > 0) json.set("global_every", config.global_every);
  json.set("tied", config.tied);
  json.set("dropout", static_cast<double>(config.dropout));
  json.set("norm_eps", static_cast<double>(config.norm_eps));
  if (config.adapter.used()) json.set("adapter", adapter_to_json(config.adapter));
  if (!config.family.empty()) json.set("family", config.family);
  return json;
}

ModelConfig model_from_json(const Json& json, std::string_view what) {
  ModelConfig config;
  config.layers = json.at("n_layer").integer();
  config.heads = json.at("n_head").integer();
  config.kv_heads = json.at("n_kv_head").integer();
  config.width = json.at("n_embd").integer();
  config.head_size = json.at("head_dim").integer();
  config.ffn_width = json.at("ffn_width").integer();
  config.block_size = json.at("block_size").integer();
  config.vocabulary = json.at("vocab_size").integer();
  config.norm = value_in(norms, json, "norm", what);
  config.position = value_in(positions, json, "position", what);
  if (config.position == PositionKind::rope) config.rope = rope_from_json(json.at("rope"), what);
  config.activation = value_in(activations, json, "activation", what);
  config.gated = json.find("gated") != nullptr && json.at("gated").boolean();  // files from before there were gates lack it
  config.init = value_in(inits, json, "init", what);
  config.bias = json.at("bias").boolean();
  config.qkv_bias = json.at("qkv_bias").boolean();
  if (const Json* norm = json.find("qk_norm")) config.qk_norm = norm->boolean();
  if (const Json* norm = json.find("qk_norm_whole")) config.qk_norm_whole = norm->boolean();
  if (const Json* norm = json.find("pre_norm")) config.pre_norm = norm->boolean();
  if (const Json* norm = json.find("post_norm")) config.post_norm = norm->boolean();
  if (const Json* offset = json.find("norm_unit_offset")) config.unit_offset = offset->boolean();
  if (const Json* scale = json.find("embedding_scale")) config.embedding_scale = scale->number();
  if (const Json* scale = json.find("residual_scale")) config.residual_scale = scale->number();
  if (const Json* scale = json.find("logit_scale")) config.logit_scale = scale->number();
  if (const Json* scale = json.find("attention_scale")) config.attention_scale = scale->number();
  if (const Json* cap = json.find("attention_softcap")) config.attention_softcap = cap->number();
  if (const Json* cap = json.find("logit_softcap")) config.logit_softcap = cap->number();
  if (const Json* window = json.find("window")) config.window = window->integer();
  if (const Json* every = json.find("global_every")) config.global_every = every->integer();
  config.tied = json.at("tied").boolean();
  config.dropout = static_cast<float>(json.at("dropout").number());
  config.norm_eps = static_cast<float>(json.at("norm_eps").number());
  if (const Json* adapter = json.find("adapter")) config.adapter = adapter_from_json(*adapter, what);
  if (const Json* family = json.find("family")) config.family = family->string();
  if (const std::vector<Problem> problems = check(config); !problems.empty()) throw UserError(problems);
  return config;
}

}  // namespace lockstep::arch
