#pragma once

// Rules of thumb for memory, as the literature has them. The memory of Lockstep's own runs is declared in
// train/memory/rank_memory.

#include <array>

#include "arch/config.h"

namespace lockstep::planner {

/// Bytes of a rank with mixed precision and Adam, by ZeRO stage, 0 to 3 (Rajbhandari et al. 2020, figure 1). A parameter has 2
/// bytes of weights, 2 of gradients and 12 of the optimizer. Each stage cuts one more of these over the ranks.
std::array<double, 4> zero_law(double parameters, double devices);

/// Bytes a parameter with mixed precision, Adam and fp32 gradients: 6 for weights, 8 for moments, 4 for gradients.
inline constexpr double mixed_adam_bytes = 18;

/// Activations of one device, in bytes.
struct ActivationRule {
  double hidden;   ///< states between two layers
  double layer;    ///< tensors alive in one layer, `copies` of the hidden states
  double inputs;   ///< inputs of all layers: what recomputation keeps
  double working;  ///< tensors of all layers: what is kept without recomputation
  double logits;   ///< fp32
  double with_recompute() const { return inputs + layer + logits; }
  double without() const { return working + logits; }
};
/// `copies` of the hidden states are alive in a layer: 24 (SmolLM2), 28 (Llama 3.1, Mistral) to 48 (Gemma).
ActivationRule activation_rule(const arch::ModelConfig& model, double samples, double positions, double copies = 28,
                               double bytes = 2);

}  // namespace lockstep::planner
