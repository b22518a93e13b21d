#include "arch/config.h"

#include <fmt/format.h>

namespace lockstep::arch {

std::vector<Problem> check(const ModelConfig& config) {
  std::vector<Problem> problems;
  const auto at_least_one = [&](std::string_view key, std::int64_t value) {
    if (value < 1) problems.push_back({fmt::format("{} = {}: must be at least 1", key, value), fmt::format("set {}", key)});
  };
  at_least_one("model.n_layer", config.layers);
  at_least_one("model.n_head", config.heads);
  at_least_one("model.n_embd", config.width);
  at_least_one("model.block_size", config.block_size);
  at_least_one("model.vocab_size", config.vocabulary);
  if (config.heads >= 1 && config.width >= 1 && config.width % config.heads != 0) {
    problems.push_back({fmt::format("model.n_head = {} does not divide model.n_embd = {}", config.heads, config.width),
                        fmt::format("choose a width that is a multiple of {}, or another number of heads", config.heads)});
  } else if (config.head_size > 256) {
    problems.push_back(
        {fmt::format("heads of {} features (model.n_embd / model.n_head): at most 256", config.head_size), "use more heads"});
  }
  if (config.kv_heads < 1 || config.heads % config.kv_heads != 0) {
    problems.push_back(
        {fmt::format("{} key/value heads do not divide {} heads", config.kv_heads, config.heads), "choose a divisor"});
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    problems.push_back({fmt::format("model.dropout = {}: must be in [0, 1)", config.dropout), "set model.dropout=0 for none"});
  }
  return problems;
}

layout::ShardedDims whole_dims(const ModelConfig& config) {
  return {.width = config.width,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_size = config.head_size,
          .ffn_width = config.ffn_width,
          .vocabulary = config.vocabulary};
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"default", 12, 12, 768, 1024, 12, 0.0F},    {"shakespeare", 6, 6, 384, 256, 64, 0.2F},
      {"gpt2", 12, 12, 768, 1024, 12, 0.0F},       {"gpt2_medium", 24, 16, 1024, 1024, 4, 0.0F},
      {"gpt2_large", 36, 20, 1280, 1024, 4, 0.0F}, {"gpt2_xl", 48, 25, 1600, 1024, 1, 0.0F},
  };
  return all;
}

}  // namespace lockstep::arch
