#include "arch/gguf_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "arch/huggingface/rope_json.h"
#include "arch/rotary.h"

namespace lockstep::arch::gguf {
namespace {

constexpr std::string_view type_key = "rope.scaling.type", factor_key = "rope.scaling.factor", old_key = "rope.scale_linear",
                           original_key = "rope.scaling.original_context_length", length_key = "rope.scaling.attn_factor",
                           fast_key = "rope.scaling.yarn_beta_fast", slow_key = "rope.scaling.yarn_beta_slow";
// YaRN's beta_fast and beta_slow: llama.cpp reads their keys in other architectures alone (llama-model.cpp, load_hparams).
constexpr double usual_fast = 32, usual_slow = 1;
constexpr std::string_view finetuned_key = "rope.scaling.finetuned";  // llama.cpp prints it, and turns no Granite without it
constexpr std::array keys{type_key, factor_key, old_key, original_key, length_key, fast_key, slow_key, finetuned_key};

}  // namespace

bool is_scaling_key(std::string_view key) { return std::ranges::find(keys, key) != keys.end(); }

// llama.cpp multiplies YaRN's usual attention factor by the one that is stored (llama-context.cpp, yarn_attn_factor).
Json scaling_pairs(const Rope& rope) {
  Json pairs(Json::Object{});
  const auto set = [&](std::string_view key, Json value) { pairs.set(std::string(key), std::move(value)); };
  if (rope.scaling != RopeScaling::linear && rope.scaling != RopeScaling::yarn) return pairs;
  set(type_key, rope.scaling == RopeScaling::yarn ? "yarn" : "linear");
  set(factor_key, rope.factor);
  if (rope.scaling == RopeScaling::linear) return pairs;
  if (rope.high_freq_factor != usual_fast || rope.low_freq_factor != usual_slow) {
    throw UserError(fmt::format("llama.cpp has YaRN with beta_fast = {} and beta_slow = {} alone, and this model's are {} and {}",
                                usual_fast, usual_slow, rope.high_freq_factor, rope.low_freq_factor),
                    "write a Hugging Face folder: leave .gguf out of its name");
  }
  set(original_key, rope.original_block_size);
  set(length_key, rope.attention_factor / usual_attention_factor(rope.factor));
  return pairs;
}

// llama.cpp takes a factor without a type for a linear one, and one of 0 for none (llama-model.cpp, load_hparams).
Json scaling_of_pairs(const Json& pairs, std::string_view start, std::string_view what) {
  const auto find = [&](std::string_view key) { return pairs.find(fmt::format("{}{}", start, key)); };
  const auto refuse = [&](std::string_view key, std::string_view problem, std::string_view rule) {
    throw UserError(fmt::format("{}: \"{}{}\" is {}", what, start, key, problem),
                    fmt::format("{}; take the model from its Hugging Face folder", rule));
  };
  const auto number = [&](std::string_view key, double usual) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_number()) refuse(key, value->dump().substr(0, 80), "it has to be a number");
    return value != nullptr ? value->number() : usual;
  };
  const Json* said = find(type_key);
  const Json type = said != nullptr ? *said : Json("linear");
  const auto is = [&](const char* name) { return type.is_string() && type.string() == name; };
  const bool linear = is("linear"), yarn = is("yarn");
  const double factor = number(factor_key, number(old_key, 0)), length = number(length_key, 1);
  Rope rope{.scaling = linear ? RopeScaling::linear : RopeScaling::yarn, .factor = factor == 0 ? 1 : factor};
  if (!is("none") && ((!linear && !yarn) || !(rope.factor >= 1)))
    refuse(type_key, fmt::format("{} with a factor of {}", type.dump().substr(0, 80), factor),
           "read are linear and yarn with a factor of at least 1");
  if (!yarn && length != 1) refuse(length_key, fmt::format("{}", length), "YaRN alone is read with another than 1");
  if (!yarn && (!linear || rope.factor == 1)) return {};
  const double original = number(original_key, number("context_length", 0));
  if (!(length > 0)) refuse(length_key, fmt::format("{}", length), "it has to be above 0");
  if (!(original >= 1 && original <= huggingface::most_positions))
    refuse(original_key, fmt::format("{}", original), fmt::format("it has to be from 1 to {}", huggingface::most_positions));
  rope.original_block_size = static_cast<std::int64_t>(original);
  for (const auto& [key, usual] : {std::pair(fast_key, usual_fast), {slow_key, usual_slow}}) {
    if (const double value = number(key, usual); value != usual)
      refuse(key, fmt::format("{}", value), fmt::format("llama.cpp has {} whatever a file says", usual));
  }
  rope.high_freq_factor = usual_fast;
  rope.low_freq_factor = usual_slow;
  rope.attention_factor = usual_attention_factor(rope.factor) * length;
  return huggingface::rope_json(rope, 0);
}

/// Llama 3.1's scaling leaves no trace but its factors. Published models differ in the factor and in the context before it, a
/// power of two.
Json scaling_of_factors(std::span<const float> factors, double theta, std::string_view what) {
  constexpr std::int64_t longest = std::int64_t{1} << 20;
  ModelConfig probe;
  probe.head_size = 2 * std::ssize(factors);
  probe.position = PositionKind::rope;
  probe.rope.theta = theta;
  Rope& rope = probe.rope;
  rope.scaling = RopeScaling::llama3;
  rope.factor = std::round(*std::ranges::max_element(factors) * 1024) / 1024;
  const auto close = [](float a, float b) { return std::fabs(a - b) <= 1e-5F * std::fabs(a); };
  const auto fits = [&] { return std::ranges::equal(rope_factors(probe), factors, close); };
  const bool possible = rope.theta > 0 && std::isfinite(rope.theta) && rope.factor >= 1 && std::isfinite(rope.factor);
  bool found = possible && fits();  // with the context that is usual
  for (std::int64_t context = longest; context > 1 && !found && possible; context /= 2) {
    rope.original_block_size = context;
    found = fits();
  }
  if (!found) {
    throw UserError(fmt::format("{}: the factors in \"{}\" are not those of Llama 3.1", what, rope_factors_name),
                    "take the model from its Hugging Face folder");
  }
  return huggingface::rope_json(rope, longest);
}

std::vector<float> rope_factors(const ModelConfig& config) {
  if (config.position != PositionKind::rope || config.rope.scaling == RopeScaling::none) return {};
  if (config.rope.scaling == RopeScaling::linear || config.rope.scaling == RopeScaling::yarn) return {};
  if (config.rope.scaling != RopeScaling::llama3) {
    throw UserError("the scaling of the model's rotary positions is not written to GGUF files",
                    "write a Hugging Face folder: leave .gguf out of its name");
  }
  ModelConfig plain = config;
  plain.rope.scaling = RopeScaling::none;
  std::vector<float> factors = rotary_frequencies(plain);
  const std::vector<float> scaled = rotary_frequencies(config);
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
  return factors;
}

}  // namespace lockstep::arch::gguf
