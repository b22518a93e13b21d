#pragma once

// The matrix products of one training step, from the model's shape. Floors are made of them.

#include <cstdint>
#include <string_view>
#include <vector>

#include "arch/config.h"

namespace lockstep::lab {

/// Kinds of products. A layer y = x w^T has three; attention has two, for one head of one sample.
enum class ProductRole : std::uint8_t { forward, input_gradient, weight_gradient, scores, values };
std::string_view name_of(ProductRole role);

/// One shape and how often a step computes it. For a layer: M tokens, N out-features, K in-features. For attention: a product [M,
/// K] x [K, N] with M queries. Scores have the keys in N, values have them in K.
struct StepProduct {
  ProductRole role;
  std::int64_t m, n, k;
  double count;  ///< not a whole number where causal attention needs a part of the rectangle
  double flops() const { return 2 * count * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

/// All products of a step over `samples` x `positions` tokens. The head's come in the chunks that the model cuts its logits into.
/// Attention counts only scores that a causal mask leaves: two products forward, four backward. Recomputation is a program's own
/// choice and no part of the floor.
std::vector<StepProduct> step_products(const arch::ModelConfig& config, std::int64_t samples, std::int64_t positions);

}  // namespace lockstep::lab
