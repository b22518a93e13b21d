#include "arch/huggingface/rope_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>

#include "arch/huggingface/known_keys.h"

namespace lockstep::arch::huggingface {
namespace {

struct ScalingName {
  std::string_view name;
  RopeScaling scaling;
};
constexpr std::array<ScalingName, 7> scaling_names{{{"default", RopeScaling::none},
                                                    {"linear", RopeScaling::linear},
                                                    {"dynamic", RopeScaling::dynamic},
                                                    {"llama3", RopeScaling::llama3},
                                                    {"yarn", RopeScaling::yarn},
                                                    {"longrope", RopeScaling::longrope},
                                                    {"su", RopeScaling::longrope}}};  // as the first Phi-3 called it

constexpr std::array<OnlyValue, 1> plain_length{{{"attention_factor", "1", "scores that are scaled with the context"}}};

/// The context before it was stretched: within the object, or beside it.
void read_original(Fields& fields, Fields& inner, std::string_view key, Rope& rope) {
  const Json* beside = fields.present("original_max_position_embeddings");
  const bool within = inner.present("original_max_position_embeddings") != nullptr;
  Fields& spelt = beside != nullptr && !within ? fields : inner;
  rope.original_block_size = spelt.size("original_max_position_embeddings", most_positions);
  if (beside != nullptr && within && fields.size("original_max_position_embeddings", most_positions) != rope.original_block_size)
    inner.refuse(fmt::format("\"original_max_position_embeddings\" is {} and in \"{}\" {}, but they are one thing",
                             shown(*beside), key, rope.original_block_size),
                 "leave the wrong one out");
}

/// Peng et al. 2023, equations 15 to 22, as transformers' _compute_yarn_parameters has them: DeepSeek's two lengths are one
/// there.
void read_yarn(Fields& inner, Rope& rope) {
  rope.high_freq_factor = inner.positive("beta_fast", 32);
  rope.low_freq_factor = inner.positive("beta_slow", 1);
  const auto length = [&](double of) { return rope.factor <= 1 ? 1 : of * (usual_attention_factor(rope.factor) - 1) + 1; };
  double usual = usual_attention_factor(rope.factor);
  const bool both = inner.present("mscale") != nullptr && inner.present("mscale_all_dim") != nullptr;
  if (both) usual = length(inner.positive("mscale")) / length(inner.positive("mscale_all_dim"));
  rope.attention_factor = inner.positive("attention_factor", usual);
  if (!inner.flag("truncate", true)) inner.refuse("\"truncate\" is false: YaRN's ramp between pairs that are not whole");
}

double usual_longrope_factor(std::int64_t positions, const Rope& rope) {
  const auto original = static_cast<double>(std::max<std::int64_t>(rope.original_block_size, 1));
  return std::max(static_cast<double>(positions) / original, 1.0);
}

/// transformers' _compute_longrope_parameters: without a factor that of the context counts.
void read_longrope(Fields& inner, const ModelConfig& config, Rope& rope) {
  rope.short_factors = inner.positives("short_factor");
  rope.long_factors = inner.positives("long_factor");
  rope.factor = std::max(inner.positive("factor", usual_longrope_factor(config.block_size, rope)), 1.0);
  rope.attention_factor = inner.positive("attention_factor", usual_longrope_length(rope.factor, rope.original_block_size));
}

/// What one of the objects says about the rotary positions of `config`, whose theta is the usual one. `key`: its name.
Rope rope_of(Fields& fields, const Json& json, std::string_view key, std::string_view what, const ModelConfig& config,
             double usual_theta) {
  Rope rope;
  Fields inner(json, what, std::string(key) + ".");
  rope.theta = inner.positive("rope_theta", usual_theta);
  const std::string type = inner.text(inner.one_of({"rope_type", "type"}), "default");
  const auto named = std::ranges::find(scaling_names, type, &ScalingName::name);
  if (named == scaling_names.end()) {  // its other keys are nothing to complain of
    inner.refuse(fmt::format("\"{}.rope_type\": rotary positions of type \"{}\" are not known", key, type),
                 "known are default, linear, dynamic, llama3, yarn and longrope");
    fields.take(inner);
    return rope;
  }
  rope.scaling = named->scaling;
  const bool longrope = rope.scaling == RopeScaling::longrope;
  if (rope.scaling != RopeScaling::none && !longrope) rope.factor = inner.positive("factor");
  if (rope.scaling == RopeScaling::llama3) {
    rope.low_freq_factor = inner.positive("low_freq_factor");
    rope.high_freq_factor = inner.positive("high_freq_factor");
  }
  if (rope.scaling == RopeScaling::yarn) read_yarn(inner, rope);
  if (longrope || rope.scaling == RopeScaling::llama3 || rope.scaling == RopeScaling::yarn)
    read_original(fields, inner, key, rope);
  if (longrope) read_longrope(inner, config, rope);
  if (!longrope && rope.scaling != RopeScaling::yarn) inner.demand(plain_length);
  inner.demand(rope_keys().only);
  inner.pass(rope_keys().harmless);
  inner.refuse_unknown("leave it out, if it changes nothing of what the model computes");
  fields.take(inner);
  return rope;
}

/// transformers 4's Phi-3 demands these three members and no other, so what follows from the contexts is left out.
Json longrope_json(const Rope& rope, std::int64_t positions) {
  Json json(Json::Object{{"type", "longrope"},
                         {"short_factor", Json::Array(rope.short_factors.begin(), rope.short_factors.end())},
                         {"long_factor", Json::Array(rope.long_factors.begin(), rope.long_factors.end())}});
  if (rope.factor != usual_longrope_factor(positions, rope)) json.set("factor", rope.factor);
  if (rope.attention_factor != usual_longrope_length(usual_longrope_factor(positions, rope), rope.original_block_size))
    json.set("attention_factor", rope.attention_factor);
  return json;
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

}  // namespace

// Where both objects are there transformers takes "rope_scaling" (modeling_rope_utils.py, convert_rope_params_to_dict:
// `rope_scaling or self.rope_parameters`); what the other says beside a base must then be the same.
void read_rope(Fields& fields, const Json& json, ModelConfig& config, std::string_view what) {
  fields.present("original_max_position_embeddings");
  fields.positive("rope_theta", 1);
  const double usual_theta = config.rope.theta;
  const Json* scaling = rope_object(fields, "rope_scaling");
  const Json* parameters = rope_object(fields, "rope_parameters");
  if (parameters != nullptr) config.rope = rope_of(fields, *parameters, "rope_parameters", what, config, usual_theta);
  if (scaling != nullptr) {
    const Rope other = config.rope;
    config.rope = rope_of(fields, *scaling, "rope_scaling", what, config, usual_theta);
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
  if (scaling != nullptr && says(parameters) && !says(&json) && !says(scaling) && config.rope.theta != usual_theta) {
    fields.refuse(fmt::format("\"rope_parameters.rope_theta\" is {}, but \"rope_scaling\", which counts in its place, says none",
                              config.rope.theta),
                  "say it in \"rope_scaling\" too");
  }
}

void read_layered_rope(Fields& fields, const Json& json, ModelConfig& config, std::string_view what, double local_theta) {
  const Json* parameters = rope_object(fields, "rope_parameters");
  const auto part = [&](const char* name) { return parameters != nullptr ? parameters->find(name) : nullptr; };
  const Json *full = part("full_attention"), *local = part("sliding_attention");
  if (full == nullptr && local == nullptr) {
    // configuration_gemma3.py, convert_rope_params_to_dict: it takes layers' own objects, and a type by its later name alone.
    if (parameters != nullptr)
      fields.refuse("\"rope_parameters\" has neither \"full_attention\" nor \"sliding_attention\"",
                    "say in each of them what it says");
    const Json* scaling = rope_object(fields, "rope_scaling");
    if (scaling != nullptr && scaling->find("type") != nullptr && scaling->find("rope_type") == nullptr)
      fields.refuse("\"rope_scaling.type\" is passed over by transformers in this model", "call it \"rope_type\"");
    read_rope(fields, json, config, what);
    config.rope.local_theta = fields.positive("rope_local_base_freq", local_theta);
    return;
  }
  Fields layers(*parameters, what, "rope_parameters.");
  const auto read = [&](const char* name, double usual_theta) {
    const Json* object = rope_object(layers, name);
    const std::string key = std::string("rope_parameters.") + name;
    return object != nullptr ? rope_of(layers, *object, key, what, config, usual_theta) : Rope{.theta = usual_theta};
  };
  const Rope within = read("sliding_attention", local_theta);
  config.rope = read("full_attention", config.rope.theta);
  config.rope.local_theta = within.theta;
  if (within.scaling != RopeScaling::none)
    layers.refuse("\"rope_parameters.sliding_attention\": a longer context of layers that see a window");
  layers.refuse_unknown("leave it out, if it changes nothing of what the model computes");
  fields.take(layers);
}

Json rope_json(const Rope& rope, std::int64_t positions) {
  if (rope.scaling == RopeScaling::longrope) return longrope_json(rope, positions);
  if (rope.scaling == RopeScaling::none) return {};
  const auto named = std::ranges::find(scaling_names, rope.scaling, &ScalingName::scaling);
  Json json = Json::Object{{"rope_type", std::string(named->name)}, {"factor", rope.factor}};
  const bool yarn = rope.scaling == RopeScaling::yarn;
  if (!yarn && rope.scaling != RopeScaling::llama3) return json;
  json.set(yarn ? "beta_slow" : "low_freq_factor", rope.low_freq_factor);
  json.set(yarn ? "beta_fast" : "high_freq_factor", rope.high_freq_factor);
  json.set("original_max_position_embeddings", rope.original_block_size);
  if (yarn) json.set("attention_factor", rope.attention_factor);
  return json;
}

}  // namespace lockstep::arch::huggingface
