#pragma once

// Rules of thumb for memory, as the literature has them. What a run of ours takes, its own declarations say
// (train/memory/rank_memory).

#include <array>

#include "arch/config.h"

namespace lockstep::planner {

/// Bytes of a rank with mixed precision and Adam, by ZeRO stage, 0 to 3 (Rajbhandari et al. 2020, figure 1). A parameter has 2
/// bytes of weights, 2 of gradients and 12 of the optimizer. Each stage cuts one more of these over the ranks.
std::array<double, 4> zero_law(double parameters, double devices);

/// Bytes of a parameter of mixed precision and Adam with fp32 gradients: 6 weights, 8 moments, 4 gradients.
inline constexpr double mixed_adam_bytes = 18;

/// Activations of one device, in bytes.
struct ActivationRule {
  double hidden;   ///< states between two layers
  double layer;    ///< what a layer works with: `copies` of them
  double inputs;   ///< of all layers: what recomputation keeps
  double working;  ///< of all layers: what is kept without it
  double logits;   ///< fp32
  double with_recompute() const { return inputs + layer + logits; }
  double without() const { return working + logits; }
};
/// `copies` of the hidden states are alive in a layer: 24 (SmolLM2), 28 (Llama 3.1, Mistral) to 48 (Gemma).
ActivationRule activation_rule(const arch::ModelConfig& model, double samples, double positions, double copies = 28,
                               double bytes = 2);

}  // namespace lockstep::planner
