#pragma once

// Models of a few thousand weights, one for each set of parts.

#include "arch/config.h"

namespace lockstep::support {

inline arch::ModelConfig tiny_model() {
  arch::ModelConfig config;
  config.layers = 2;
  config.heads = config.kv_heads = 3;
  config.width = 30;
  config.head_size = 10;
  config.ffn_width = 120;
  config.block_size = 7;
  config.vocabulary = 65;
  config.bias = config.qkv_bias = true;
  return config;
}

/// The parts of Llama 3.1: fewer key/value heads than heads, heads wider than the model, stretched rotary positions.
inline arch::ModelConfig tiny_llama() {
  arch::ModelConfig config = tiny_model();
  config.bias = config.qkv_bias = config.tied = false;
  config.heads = 6;
  config.kv_heads = 2;
  config.ffn_width = 40;
  config.norm = arch::NormKind::rmsnorm;
  config.position = arch::PositionKind::rope;
  config.rope = {.theta = 100, .scaling = arch::RopeScaling::llama3, .original_block_size = 32};
  config.activation = arch::ActivationKind::silu;
  config.gated = true;
  return config;
}

/// The parts of Qwen2: biases of q, k, v alone, a tied head.
inline arch::ModelConfig tiny_qwen2() {
  arch::ModelConfig config = tiny_llama();
  config.heads = 3;
  config.kv_heads = 1;
  config.norm_eps = 1e-6F;
  config.rope = {.theta = 1e6};
  config.qkv_bias = config.tied = true;
  return config;
}

/// The parts of Qwen3: norms of heads. Every second layer has no window, the others have one.
inline arch::ModelConfig tiny_qwen3() {
  arch::ModelConfig config = tiny_llama();
  config.norm_eps = 1e-6F;
  config.rope = {.theta = 1e6};
  config.tied = config.qk_norm = true;
  config.window = 3;
  config.global_every = 2;
  return config;
}

/// The parts of Gemma 2 and 3 together: norms behind branches, gains of 1 + the trained number, scaled embeddings and scores.
/// Scores and logits have caps. Rotary positions have two thetas.
inline arch::ModelConfig tiny_gemma() {
  arch::ModelConfig config = tiny_qwen3();
  config.activation = arch::ActivationKind::gelu_tanh;
  config.post_norm = config.unit_offset = true;
  config.embedding_scale = 5;
  config.attention_scale = 0.4;
  config.attention_softcap = 2;
  config.logit_softcap = 3;
  config.rope = {.theta = 1e6, .local_theta = 100};
  return config;
}

/// The parts of OLMo 2 and Granite together: norms behind branches alone, norms over all queries and all keys, scaled branches
/// and logits.
inline arch::ModelConfig tiny_olmo() {
  arch::ModelConfig config = tiny_llama();
  config.rope = {.theta = 1e6};
  config.qk_norm = config.qk_norm_whole = config.post_norm = true;
  config.pre_norm = false;
  config.residual_scale = 0.7;
  config.logit_scale = 0.5;
  return config;
}

}  // namespace lockstep::support
