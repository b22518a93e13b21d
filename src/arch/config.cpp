#include "arch/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arch/adapter.h"
#include "base/checked.h"
#include "base/math/elementary.h"

namespace lockstep::arch {

namespace {

constexpr std::int64_t most_layers = 65536;
constexpr double most_parameters = 1e15;  // their bytes are counted in 64 bits

double roughly_parameters(const ModelConfig& config) {
  const auto width = static_cast<double>(config.width);
  const double heads = static_cast<double>(config.heads + config.kv_heads) * static_cast<double>(config.head_size);
  const double block = width * (2 * heads + 3 * static_cast<double>(config.ffn_width));
  return static_cast<double>(config.layers) * block + 2 * width * static_cast<double>(config.vocabulary + config.block_size);
}

void check_longrope(const ModelConfig& config, std::vector<Problem>& problems) {
  const auto demand = [&](std::string_view key, const std::vector<double>& factors) {
    if (2 * std::ssize(factors) == config.head_size && std::ranges::all_of(factors, [](double f) { return f > 0; })) return;
    problems.push_back({fmt::format("{} has {} factors: longrope needs one above 0 for each pair of the {} features of a head",
                                    key, factors.size(), config.head_size),
                        fmt::format("give {} numbers", config.head_size / 2)});
  };
  demand("model.rope_short_factors", config.rope.short_factors);
  demand("model.rope_long_factors", config.rope.long_factors);
}

void check_rope(const ModelConfig& config, std::vector<Problem>& problems) {
  const Rope& rope = config.rope;
  if (config.head_size % 2 != 0) {
    problems.push_back({fmt::format("heads of {} features: model.position = rope turns pairs of them", config.head_size),
                        "choose an even model.head_dim"});
  }
  if (!(rope.local_theta == 0 || rope.local_theta > 1)) {
    problems.push_back(
        {fmt::format("model.rope_local_theta = {}: must be above 1, or 0 for none", rope.local_theta), "Gemma 3 has 10000"});
  }
  if (!(rope.theta > 1)) {
    problems.push_back({fmt::format("model.rope_theta = {}: must be above 1", rope.theta), "the usual one is 10000"});
  }
  if (rope.scaling == RopeScaling::none) return;
  if (!(rope.factor >= 1)) {
    problems.push_back({fmt::format("model.rope_factor = {}: must be at least 1", rope.factor), "Llama 3.1 has 8"});
  }
  if (rope.scaling == RopeScaling::linear || rope.scaling == RopeScaling::dynamic) return;
  const bool by_pairs = rope.scaling == RopeScaling::longrope;
  if (by_pairs) check_longrope(config, problems);
  if (!by_pairs && !(rope.low_freq_factor > 0 && rope.low_freq_factor < rope.high_freq_factor)) {
    problems.push_back({fmt::format("model.rope_low_freq_factor = {} is not between 0 and model.rope_high_freq_factor = {}",
                                    rope.low_freq_factor, rope.high_freq_factor),
                        "Llama 3.1 has 1 and 4, YaRN 1 and 32"});
  }
  if (!(rope.attention_factor > 0)) {
    problems.push_back({fmt::format("model.rope_attention_factor = {}: must be above 0", rope.attention_factor),
                        "leave it out for the usual one"});
  }
  if (rope.original_block_size < 1) {
    problems.push_back(
        {fmt::format("model.rope_original_block_size = {}: must be at least 1", rope.original_block_size), "Llama 3.1 has 8192"});
  }
}

void check_sizes(const ModelConfig& config, std::vector<Problem>& problems) {
  const auto at_least_one = [&](std::string_view key, std::int64_t value) {
    if (value < 1) problems.push_back({fmt::format("{} = {}: must be at least 1", key, value), fmt::format("set {}", key)});
    if (value > std::numeric_limits<std::int32_t>::max())
      problems.push_back({fmt::format("{} = {}: must be below 2^31", key, value), fmt::format("set {}", key)});
  };
  at_least_one("model.n_layer", config.layers);
  at_least_one("model.n_head", config.heads);
  at_least_one("model.n_embd", config.width);
  at_least_one("model.block_size", config.block_size);
  at_least_one("model.vocab_size", config.vocabulary);
  at_least_one("model.n_kv_head", config.kv_heads);
  at_least_one("model.head_dim", config.head_size);
  at_least_one("model.ffn_width", config.ffn_width);
  if (config.layers > most_layers) {
    problems.push_back({fmt::format("model.n_layer = {}: at most {}", config.layers, most_layers), "use fewer, wider layers"});
  }
  if (problems.empty() && roughly_parameters(config) > most_parameters) {
    problems.push_back({fmt::format("a model of {:.1e} parameters: at most {:.0e}", roughly_parameters(config), most_parameters),
                        "use a smaller one"});
  }
  if (config.head_size > 256) {
    problems.push_back(
        {fmt::format("heads of {} features (model.head_dim, or model.n_embd / model.n_head): at most 256", config.head_size),
         "use more heads, or set model.head_dim"});
  }
  if (config.kv_heads >= 1 && config.heads >= 1 && config.heads % config.kv_heads != 0) {
    problems.push_back({fmt::format("model.n_kv_head = {} does not divide model.n_head = {}", config.kv_heads, config.heads),
                        fmt::format("choose a divisor of {}", config.heads)});
  }
}

}  // namespace

double Adapter::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rank_stabilised ? std::sqrt(r) : r);
}

bool turns(const ModelConfig& config, int layer) {
  const std::int64_t every = config.rope.skip_every;
  return config.position == PositionKind::rope && (every == 0 || (layer + 1) % every != 0);
}

bool sees_window(const ModelConfig& config, std::int64_t layer) {
  return config.window > 0 && (config.global_every == 0 || (layer + 1) % config.global_every != 0);
}

bool has_local_theta(const ModelConfig& config) {
  return config.position == PositionKind::rope && config.window > 0 && config.rope.local_theta > 0;
}

std::int64_t seen_keys(const ModelConfig& config, std::int64_t layer, std::int64_t positions) {
  return sees_window(config, layer) ? std::min(config.window, positions) : positions;
}

double usual_longrope_length(double rope_factor, std::int64_t original_block_size) {
  if (rope_factor <= 1 || original_block_size <= 1) return 1;
  return std::sqrt(1 + logarithm(rope_factor) / logarithm(static_cast<double>(original_block_size)));
}

const std::vector<double>& longrope_factors(const ModelConfig& config) {
  const Rope& rope = config.rope;
  return config.block_size > rope.original_block_size ? rope.long_factors : rope.short_factors;
}

double usual_attention_factor(double rope_factor) { return 0.1 * logarithm(std::max(rope_factor, 1.0)) + 1; }

std::vector<Problem> check(const ModelConfig& config) {
  std::vector<Problem> problems;
  check_sizes(config, problems);
  if (config.position == PositionKind::rope) check_rope(config, problems);
  if (config.window < 0 || config.global_every < 0 || config.rope.skip_every < 0)
    problems.push_back({"model.window, model.global_every and model.rope_skip_every are not negative", "0 switches them off"});
  if (config.unit_offset && config.norm != NormKind::rmsnorm) {
    problems.push_back({"model.norm_unit_offset = true: LayerNorm has no gain of 1 + what is trained", "set model.norm=rmsnorm"});
  }
  if (config.qk_norm_whole && (!config.qk_norm || config.unit_offset)) {
    problems.push_back(
        {"model.qk_norm_whole = true: it says how model.qk_norm=true is meant, and has no gains of 1 + what is trained",
         "set model.qk_norm=true and model.norm_unit_offset=false, or leave it out"});
  }
  if (!config.pre_norm && !config.post_norm) {
    problems.push_back({"model.pre_norm = false: without model.post_norm=true nothing would be normalised",
                        "set model.post_norm=true, or leave it out"});
  }
  if (!(config.residual_scale > 0 && config.logit_scale > 0)) {
    problems.push_back({fmt::format("model.residual_scale = {} and model.logit_scale = {}: both must be above 0",
                                    config.residual_scale, config.logit_scale),
                        "1 changes nothing"});
  }
  if (!(config.embedding_scale > 0)) {
    problems.push_back({fmt::format("model.embedding_scale = {}: must be above 0", config.embedding_scale), "1 changes nothing"});
  }
  if (config.embedding_scale != 1 && config.position == PositionKind::learned) {
    problems.push_back(
        {fmt::format("model.embedding_scale = {}: learned positions have a length of their own", config.embedding_scale),
         "set model.position=rope"});
  }
  if (!(config.attention_scale >= 0)) {
    problems.push_back({fmt::format("model.attention_scale = {}: must not be negative", config.attention_scale),
                        "leave it out for 1 / sqrt(model.head_dim)"});
  }
  if (!(config.attention_softcap >= 0 && config.logit_softcap >= 0))
    problems.push_back({"model.attention_softcap and model.logit_softcap are not negative", "0 switches them off"});
  if (!(config.norm_eps > 0)) {
    problems.push_back({fmt::format("model.norm_eps = {}: must be above 0", config.norm_eps), "the usual one is 1e-5"});
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    problems.push_back({fmt::format("model.dropout = {}: must be in [0, 1)", config.dropout), "set model.dropout=0 for none"});
  }
  if (problems.empty()) problems = check_adapter(config);
  return problems;
}

double init_deviation(const ModelConfig& config) {
  const auto width = static_cast<double>(config.width);
  switch (config.init) {
    case InitKind::small:
      return std::sqrt(2 / (5 * width));
    case InitKind::smaller:
      return std::sqrt(1 / (3 * width));
    default:
      return 0.02;
  }
}

layout::ShardedDims whole_dims(const ModelConfig& config) {
  layout::ShardedDims dims = {.width = config.width,
                              .heads = config.heads,
                              .kv_heads = config.kv_heads,
                              .head_size = config.head_size,
                              .ffn_width = config.ffn_width,
                              .gated = config.gated,
                              .qk_norm = config.qk_norm,
                              .qk_norm_whole = config.qk_norm_whole,
                              .pre_norm = config.pre_norm,
                              .post_norm = config.post_norm,
                              .scales_branches = config.residual_scale != 1,
                              .caps_logits = config.logit_softcap > 0,
                              .adapter_rank = config.adapter.rank,
                              .vocabulary = config.vocabulary,
                              .all_heads = config.heads,
                              .heads_per_kv = config.heads / config.kv_heads,
                              .greatest_vocabulary = config.vocabulary};
  dims.adapters = std::ssize(adapter_sites(config, dims));
  return dims;
}

std::int64_t usual_ffn_width(std::int64_t width, bool gated) { return gated ? round_up(8 * width / 3, 256) : 4 * width; }

}  // namespace lockstep::arch
