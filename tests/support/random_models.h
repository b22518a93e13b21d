#pragma once

// Small models of every family with odd sizes, as a seed says.

#include <random>

#include "arch/config.h"

namespace lockstep::support {

inline arch::ModelConfig random_model(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound)); };
  arch::ModelConfig config;
  config.layers = 1 + below(2);
  config.kv_heads = 1 + below(4);
  config.heads = config.kv_heads * (1 + below(4));
  config.head_size = 2 * (1 + below(3));
  config.width = 1 + below(9);
  config.ffn_width = 1 + below(20);
  config.block_size = 1 + below(6);
  config.vocabulary = 1 + below(30);
  config.norm = below(2) == 0 ? arch::NormKind::layernorm : arch::NormKind::rmsnorm;
  config.position = below(2) == 0 ? arch::PositionKind::learned : arch::PositionKind::rope;
  config.gated = below(2) == 0;
  config.bias = below(2) == 0;
  config.qkv_bias = below(2) == 0;
  config.tied = below(2) == 0;
  config.init = static_cast<arch::InitKind>(below(4));
  config.qk_norm = below(3) == 0;
  config.qk_norm_whole = config.qk_norm && below(2) == 0;
  config.post_norm = below(3) == 0;
  config.pre_norm = !config.post_norm || below(2) == 0;
  config.residual_scale = below(3) == 0 ? 0.5 : 1;
  config.logit_scale = below(3) == 0 ? 0.25 : 1;
  config.window = below(3) == 0 ? 1 + below(4) : 0;
  config.global_every = below(3);
  config.rope.skip_every = below(3);
  return config;
}

}  // namespace lockstep::support
