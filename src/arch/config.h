#pragma once

// What a model is: sizes and parts. The parts are values, chosen by configuration; tables (arch/parameters) and the model's
// constructors read them, the training step does not.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "layout/sharded_dims.h"
#include "ops/linear.h"

namespace lockstep::arch {

enum class NormKind : std::uint8_t { layernorm };
enum class PositionKind : std::uint8_t { learned };
/// gpt2: normal(0, 0.02), residual projections / sqrt(2 layers) (Radford et al. 2019). pytorch: what PyTorch's Linear and
/// Embedding start from (uniform in +-1/sqrt(in-features), normal(0, 1)).
enum class InitKind : std::uint8_t { gpt2, pytorch };

struct ModelConfig {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 12;
  std::int64_t width = 768;        ///< C
  std::int64_t head_size = 64;     ///< D
  std::int64_t ffn_width = 3072;   ///< F
  std::int64_t block_size = 1024;  ///< longest context, T
  std::int64_t vocabulary = 50304;
  NormKind norm = NormKind::layernorm;
  PositionKind position = PositionKind::learned;
  ops::Activation activation = ops::Activation::gelu;
  InitKind init = InitKind::gpt2;
  bool bias = false;      ///< biases of norms and products, but for q, k, v
  bool qkv_bias = false;  ///< biases of q, k, v
  bool tied = true;       ///< the head uses the token table
  float dropout = 0;
  float norm_eps = 1e-5F;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Everything that is wrong with the sizes; empty when nothing is.
std::vector<Problem> check(const ModelConfig& config);

/// The sizes of a rank that holds everything.
layout::ShardedDims whole_dims(const ModelConfig& config);

/// A named size of the GPT-2 family (seeds.md 2.1).
struct Preset {
  std::string_view name;
  std::int64_t layers, heads, width, block_size, batch_size;
  float dropout;
};
const std::vector<Preset>& presets();

}  // namespace lockstep::arch
