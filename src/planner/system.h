#pragma once

// Training systems, as far as their steps differ in time and memory: what runs together with what, and how often bytes move. Each
// has at most eight numbers that were fitted to throughputs that others published (docs/planner.md says to which).

#include <cstdint>
#include <span>
#include <string_view>

#include "layout/parallel_plan.h"

namespace lockstep::planner {

struct System {
  std::string_view name = "lockstep";
  /// Attention is computed in tiles, without the half that causality masks; false: scores are written and read, whole.
  bool tiled_attention = true;
  /// What memory.recompute=selective makes again: the feed-forward layer's first product, attention, or every other product with
  /// all that is no product (torchtitan).
  enum class Selective : std::uint8_t { first_product, attention, other_products } selective = Selective::first_product;
  /// What is run again leaves out products whose results nothing reads; false: it is every block, whole.
  bool spares_again = true;
  bool spares_last_blocks = true;  ///< and blocks that the forward pass has just left
  double element_bytes = 2;        ///< of weights and activations: bf16, or 4 for f32
  double sum_bytes = 4;            ///< of an element that tensor ranks add up
  double gradient_bytes = 4;       ///< of an element of a gradient that ranks add up
  double added_bytes = 8;          ///< of memory, for each weight's gradient that is added to its sum
  /// Bytes of memory that an update moves for a parameter. It reads gradient, master copy and moments, and writes the last two.
  /// The weight is a half of the copy.
  double update_bytes = 28;
  /// Bytes of passes over memory that products do not make, for elements of 2 bytes. `row` is for an element of a row as wide as
  /// the model (norms, residual sums). `ffn` is for one of the feed-forward layer's first product. `dropout` is added to `row`.
  struct Passes {
    double row_forward, row_backward, ffn_forward, ffn_backward, dropout;
  } passes{8, 16, 0, 0, 0};  ///< two norms; then what was read and the gradient of both sides, of which one is added to
  double logit_bytes = 12;   ///< that the loss moves for each logit, there and back
  /// Gradients are reduced under the backward pass, and new weights gathered under the forward pass.
  bool hides_reductions = true;
  /// Where tensor ranks go on while their sums are under way: under products of weight gradients, or under all (async TP).
  enum class HiddenSums : std::uint8_t { none, backward, all } hidden_sums = HiddenSums::backward;
  bool hides_messages = true;  ///< passes go on while a pipeline's messages are under way
  /// Each tensor rank sends its part of a message, and the other side's ranks gather it inside their node.
  bool scatters_messages = false;
  /// From ZeRO-2 on gradients are cut in every micro-batch, not once a step.
  bool reduces_microbatches = false;
  /// Ring collectives leave a node by the links of all its ranks at once (NCCL's rings); false: by the share of one.
  bool joins_links = false;

  /// Elements that the system keeps of a block for its backward pass, where the engine's own declarations do not say so.
  /// `outside` is for one of the width; tensor ranks cut it only with sequence parallelism. The others are for one of queries
  /// (with attention's results), of keys (with values), and of each of the feed-forward layer's first products.
  struct Kept {
    double outside, queries, keys, ffn;
  } kept{4, 2, 2, 2}, kept_selective{4, 2, 2, 2};  ///< kept_selective: with selective recomputation
  double kept_logit = 16;                          ///< bytes for a logit that the loss keeps
  /// Layouts that it has, where it is not this program: tensor and context parallelism, pipelines, offloaded state, selective
  /// recomputation, and ZeRO from one level to another.
  struct Layouts {
    bool divides, pipelines, offloads, selects;
    int least_zero, most_zero;
  } layouts{true, true, true, true, 0, 3};
  double master_bytes = 12;      ///< of a parameter where the optimizer is: fp32 copy and moments
  bool master_is_weight = true;  ///< with ZeRO-3 a rank's part of the weights is that copy, and weights are cast as they go

  // Fitted.
  double product_part = 1;    ///< of the machine's product share
  double attention_part = 1;  ///< of its rate of attention
  double memory_part = 1;     ///< of its memory's rate, that passes over memory reach
  double contention = 0;      ///< of the seconds of hidden collectives, what computing loses: both want units and memory
  double hop_seconds = 0;     ///< of each rank in a ring of a block's weights or gradients, that nothing hides
};

/// The seconds that `transfers` add to seconds of `computing` that goes on meanwhile.
double beside(double transfers, double computing, const System& system);

/// This program, in bf16. It has not run on GPUs.
inline constexpr System own_system{};
/// The system with weights and activations of f32.
constexpr System in_f32(System system) {
  system.element_bytes = 4;
  return system;
}
inline constexpr System own_f32_system = in_f32(own_system);
/// Megatron-LM as the papers of 2021 and 2022 measured it. The passes: two norms, sums, dropout and its mask, the activation.
inline constexpr System megatron{.name = "megatron",
                                 .tiled_attention = false,
                                 .selective = System::Selective::attention,
                                 .spares_again = false,
                                 .spares_last_blocks = false,
                                 .sum_bytes = 2,
                                 .gradient_bytes = 2,
                                 .added_bytes = 12,
                                 .update_bytes = 32,
                                 .passes = {12, 16, 4, 6, 10},
                                 .hides_reductions = false,
                                 .hidden_sums = System::HiddenSums::none,
                                 .hides_messages = false,
                                 .scatters_messages = true,
                                 .kept = {5, 2, 2, 2},
                                 .kept_selective = {5, 2, 2, 2},
                                 .kept_logit = 8,
                                 .layouts = {true, true, false, true, 0, 1},
                                 .master_is_weight = false};
/// The DeepSpeed of that time.
inline constexpr System deepspeed = [] {
  System system = megatron;
  system.name = "deepspeed";
  system.hides_reductions = true;
  system.hidden_sums = System::HiddenSums::backward;
  system.reduces_microbatches = true;
  system.layouts = {false, false, true, false, 0, 3};
  return system;
}();
/// PyTorch's FSDP without a compiler. Norms, residual sums, activations and the steps of the loss are kernels of their own. What
/// checkpointing runs again ends behind the last result that is needed. Sums are of fp32. Those of PURE are of bf16, which makes
/// its published rows at most 2 % faster.
inline constexpr System fsdp{.name = "fsdp",
                             .selective = System::Selective::attention,
                             .spares_last_blocks = false,
                             .sum_bytes = 2,
                             .added_bytes = 0,
                             .passes = {20, 24, 4, 6, 10},
                             .logit_bytes = 24,
                             .hidden_sums = System::HiddenSums::none,
                             .reduces_microbatches = true,
                             .joins_links = true,
                             .layouts = {false, false, false, false, 0, 3},
                             .product_part = 0.955,
                             .attention_part = 0.549,
                             .memory_part = 0.486,
                             .contention = 0.737,
                             .hop_seconds = 4.8e-6};

/// torchtitan with its compiler: norms, residual sums and activations are fused, and attention is FlashAttention-2.
inline constexpr System torchtitan = [] {
  System system = fsdp;
  system.name = "torchtitan";
  system.selective = System::Selective::other_products;
  system.passes = {12, 20, 3, 5, 0};
  system.logit_bytes = 16;
  system.product_part = 0.86;  // fitted to one row: Llama 3.1 8B on 8 H100, compiled
  system.attention_part = 1;
  system.kept = {.outside = 3, .queries = 2, .keys = 2, .ffn = 1};
  system.kept_selective = {.outside = 2, .queries = 2, .keys = 1, .ffn = 0.5};
  system.kept_logit = 14;
  system.layouts = {true, true, false, true, 3, 3};
  return system;
}();

/// The same without it.
inline constexpr System eager_torchtitan = [] {
  System system = torchtitan;
  // RMSNorm and rotations in fp32, a kernel a step.
  system.passes = {.row_forward = 72, .row_backward = 100, .ffn_forward = 5, .ffn_backward = 8, .dropout = 0};
  system.logit_bytes = fsdp.logit_bytes;
  system.kept = fsdp.kept;
  system.kept_logit = fsdp.kept_logit;
  return system;
}();

/// One of each name.
std::span<const System> systems();
/// Null: there is none of the name.
const System* find_system(std::string_view name);
/// This program.
inline bool is_own(const System& system) { return system.name == own_system.name; }
/// Whether the system has what the plan asks for.
bool supports(const System& system, const layout::ParallelPlan& plan);

}  // namespace lockstep::planner
