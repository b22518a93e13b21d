#pragma once

// In what training systems differ, as far as it takes time.

namespace lockstep::planner {

struct System {
  /// Attention is computed in tiles, without the half that causality masks; false: scores are written and read, whole.
  bool tiled_attention = true;
  /// Biases, activations, residual sums and their gradients are computed where products and norms write their results; false:
  /// each is a pass over memory.
  bool fused_elementwise = true;
  /// Backward makes the forward pass of what this names again with memory.recompute=selective: the feed-forward layer's first
  /// product; false: attention.
  bool selective_feed_forward = true;
  /// What is run again leaves out products whose results nothing reads, and blocks that the forward pass has just left; false: it
  /// is every block, whole.
  bool spares_again = true;
  double element_bytes = 2;   ///< of weights and activations: bf16, or 4 for f32
  double sum_bytes = 4;       ///< of an element that tensor ranks add up
  double gradient_bytes = 4;  ///< of an element of a gradient that ranks add up
  double added_bytes = 8;     ///< of memory, for each weight's gradient that is added to its sum
  /// Of memory, for a parameter: gradient, master copy and moments read, the last two written; the weight is a half of the copy.
  double update_bytes = 28;
  bool dropout = false;  ///< is a pass over memory of its own
  /// Gradients are reduced under the backward pass, and new weights gathered under the forward pass.
  bool hides_reductions = true;
  bool hides_messages = true;  ///< passes go on while a pipeline's messages are under way
  /// Each tensor rank sends its part of a message, and the other side's ranks gather it inside their node.
  bool scatters_messages = false;
};

/// This program, in bf16.
inline constexpr System own_system{};
/// This program, with weights and activations of f32.
inline constexpr System own_f32_system{.element_bytes = 4};
/// Megatron-LM as the papers of 2021 and 2022 measured it, and the DeepSpeed of that time.
inline constexpr System megatron{.tiled_attention = false,
                                 .fused_elementwise = false,
                                 .selective_feed_forward = false,
                                 .spares_again = false,
                                 .sum_bytes = 2,
                                 .gradient_bytes = 2,
                                 .added_bytes = 12,
                                 .update_bytes = 32,
                                 .dropout = true,
                                 .hides_reductions = false,
                                 .hides_messages = false,
                                 .scatters_messages = true};
inline constexpr System deepspeed = [] {
  System system = megatron;
  system.hides_reductions = true;
  return system;
}();

}  // namespace lockstep::planner
