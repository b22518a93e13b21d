#pragma once

// The matrix products of one training step, from the model's shape: what its floor is made of.

#include <cstdint>
#include <string_view>
#include <vector>

#include "arch/config.h"

namespace lockstep::lab {

/// The three products of a layer y = x w^T, and the two sorts of attention, for one head of one sample.
enum class ProductRole : std::uint8_t { forward, input_gradient, weight_gradient, scores, values };
std::string_view name_of(ProductRole role);

/// One shape and how often a step needs it. A layer: M tokens, N out-features, K in-features. Attention: a product
/// [M, K] x [K, N] with M queries; scores have the keys in N, values have them in K.
struct StepProduct {
  ProductRole role;
  std::int64_t m, n, k;
  double count;  ///< not whole where causal attention needs a part of the rectangle
  double flops() const { return 2 * count * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

/// All products of a step over `samples` x `positions` tokens. The head's come in the chunks that the model cuts its logits
/// into. Attention's count only scores that a causal mask leaves: two products forward, four backward. What a backward pass
/// computes again is its own choice and no part of the floor.
std::vector<StepProduct> step_products(const arch::ModelConfig& config, std::int64_t samples, std::int64_t positions);

}  // namespace lockstep::lab
