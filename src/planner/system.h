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
  /// What memory.recompute=selective computes again: the feed-forward layer's first product, attention, or every other product
  /// with all that is no product (torchtitan).
  enum class Selective : std::uint8_t { first_product, attention, other_products } selective = Selective::first_product;
  /// Recomputation leaves out products whose results nothing reads; false: it runs every block whole.
  bool spares_again = true;
  bool spares_last_blocks = true;  ///< it leaves out blocks whose forward pass has just ended, too
  double element_bytes = 2;        ///< of weights and activations: bf16, or 4 for f32
  double sum_bytes = 4;            ///< of an element that tensor ranks add up
  double gradient_bytes = 4;       ///< of an element of a gradient that ranks add up
  double added_bytes = 8;          ///< moved to add one weight's gradient to its sum
  /// Bytes of memory that an update moves for a parameter. It reads gradient, master weight and moments, and writes the last two.
  /// The bf16 weight is one half of the master weight.
  double update_bytes = 28;
  /// Bytes that passes over memory outside of products move for one element of 2 bytes. `row` is for an element of the hidden
  /// states (norms, residual sums). `ffn` is for one of the feed-forward layer's first product. `dropout` is added to `row`.
  struct Passes {
    double row_forward, row_backward, ffn_forward, ffn_backward, dropout;
  } passes{8, 16, 0, 0, 0};  ///< two norms; backward: their inputs, and the gradients of both sides
  double logit_bytes = 12;   ///< that the loss moves for each logit, in both passes
  /// Gradients are reduced under the backward pass, and new weights gathered under the forward pass.
  bool hides_reductions = true;
  /// The products that hide the sums of tensor ranks: none, those of weight gradients, or all (async TP).
  enum class HiddenSums : std::uint8_t { none, backward, all } hidden_sums = HiddenSums::backward;
  bool hides_messages = true;  ///< passes go on while a pipeline's messages are under way
  /// Each tensor rank sends its part of a message, and the other side's ranks gather it inside their node.
  bool scatters_messages = false;
  /// From ZeRO-2 on gradients are cut in every micro-batch, not once a step.
  bool reduces_microbatches = false;
  /// Ring collectives leave a node by the links of all its ranks at once (NCCL's rings); false: by one rank's share of the
  /// network.
  bool joins_links = false;

  /// Elements that a system other than this program keeps of a block for its backward pass. `outside` counts an element of the
  /// hidden states; tensor ranks cut it only with sequence parallelism. The others count an element of queries (with attention's
  /// results), of keys (with values), and of each of the feed-forward layer's first products.
  struct Kept {
    double outside, queries, keys, ffn;
  } kept{4, 2, 2, 2}, kept_selective{4, 2, 2, 2};  ///< kept_selective: with selective recomputation
  double kept_logit = 16;                          ///< bytes for a logit that the loss keeps
  /// Layouts that a system other than this program has. `divides`: tensor and context parallelism. `selects`: selective
  /// recomputation. ZeRO goes from `least_zero` to `most_zero`.
  struct Layouts {
    bool divides, pipelines, offloads, selects;
    int least_zero, most_zero;
  } layouts{true, true, true, true, 0, 3};
  double master_bytes = 12;      ///< a parameter, on the optimizer's rank: master weight and moments
  bool master_is_weight = true;  ///< with ZeRO-3 a rank's shard is the master weights, cast for each gather

  // Fitted numbers.
  double product_part = 1;    ///< factor of the machine's product share
  double attention_part = 1;  ///< factor of the machine's rate of attention
  double memory_part = 1;     ///< share of the memory's rate that passes over memory reach
  double contention = 0;      ///< share of a hidden collective's seconds that computing loses to it
  double hop_seconds = 0;     ///< a rank's, in a ring of a block's weights or gradients; nothing hides them
};

/// The seconds that `transfers` seconds of moving add to `computing` seconds at the same time.
double beside(double transfers, double computing, const System& system);

/// This program, in bf16. It has not run on GPUs.
inline constexpr System own_system{};
/// The system with weights and activations of f32.
constexpr System in_f32(System system) {
  system.element_bytes = 4;
  return system;
}
inline constexpr System own_f32_system = in_f32(own_system);
/// Megatron-LM as the papers of 2021 and 2022 measured it. Its passes are two norms, sums, dropout, its mask and the activation.
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
/// DeepSpeed as of 2021 and 2022.
inline constexpr System deepspeed = [] {
  System system = megatron;
  system.name = "deepspeed";
  system.hides_reductions = true;
  system.hidden_sums = System::HiddenSums::backward;
  system.reduces_microbatches = true;
  system.layouts = {false, false, true, false, 0, 3};
  return system;
}();
/// PyTorch's FSDP without a compiler. Norms, residual sums, activations and the steps of the loss are kernels of their own. Its
/// recomputation ends behind the last result that is needed. Gradients are summed in fp32. Published rows of PURE sum them in
/// bf16, which makes these at most 2 % faster.
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

/// torchtitan without its compiler.
inline constexpr System eager_torchtitan = [] {
  System system = torchtitan;
  // RMSNorm and rotations run in fp32, with a kernel for each of their steps.
  system.passes = {.row_forward = 72, .row_backward = 100, .ffn_forward = 5, .ffn_backward = 8, .dropout = 0};
  system.logit_bytes = fsdp.logit_bytes;
  system.kept = fsdp.kept;
  system.kept_logit = fsdp.kept_logit;
  return system;
}();

/// All systems, one of each name.
std::span<const System> systems();
/// The system of this name; null: there is none.
const System* find_system(std::string_view name);
/// Whether the system is this program.
inline bool is_own(const System& system) { return system.name == own_system.name; }
/// Whether the system has what the plan asks for.
bool supports(const System& system, const layout::ParallelPlan& plan);

}  // namespace lockstep::planner
