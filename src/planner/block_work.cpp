#include "planner/block_work.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "layout/shard.h"
#include "planner/context_exchange.h"
#include "planner/waves.h"

namespace lockstep::planner {
namespace {

/// A linear layer's products on [rows, in] of the rank.
struct Linear {
  std::int64_t in, out;
};

/// The most key/value heads of a tensor rank, among ranks with `heads` heads: neighbours may read the same one.
std::int64_t most_kv_heads(const arch::ModelConfig& model, std::int64_t heads, int tensor_ranks) {
  const layout::ShardGroup shared{.pieces = model.kv_heads, .users = model.heads / model.kv_heads};
  std::int64_t most = 0;
  for (int rank = 0; rank < tensor_ranks; ++rank) {
    if (layout::part_of(model.heads, rank, tensor_ranks).count == heads)
      most = std::max(most, layout::held_pieces(shared, {rank, tensor_ranks}).count);
  }
  return most;
}

/// The sizes of a block on the rank with most to do.
struct Block {
  std::int64_t rows, queries, keys, heads, kv_heads, head_size, samples;
  std::int64_t exchanging;  ///< ranks that exchange positions for heads
  Linear qkv, attended, up, down;
  double rows_wide, rows_ffn;  ///< elements of a row outside tensor parallelism's part, and of the activation's input

  Block(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan) {
    queries = div_up(microbatch.positions, plan.cp);
    keys = microbatch.positions;
    samples = microbatch.samples;
    rows = samples * queries;
    heads = div_up(model.heads, plan.tp);
    exchanging = context_groups(plan).exchanging;
    head_size = model.head_size;
    kv_heads = most_kv_heads(model, heads, plan.tp);
    const std::int64_t ffn = div_up(model.ffn_width, plan.tp);
    qkv = {model.width, (heads + 2 * kv_heads) * head_size};
    attended = {heads * head_size, model.width};
    up = {model.width, model.gated ? 2 * ffn : ffn};
    down = {ffn, model.width};
    rows_wide = static_cast<double>(rows) * static_cast<double>(model.width) / (plan.sequence ? plan.tp : 1);
    rows_ffn = static_cast<double>(rows) * static_cast<double>(up.out);
  }
  std::array<Linear, 4> linears() const { return {qkv, attended, up, down}; }
  double weights() const {
    double sum = 0;
    for (const Linear& layer : linears()) sum += static_cast<double>(layer.in) * static_cast<double>(layer.out);
    return sum;
  }
  /// Heads, counted for the rank's own positions: of ranks that exchange, the one with most heads attends all their positions.
  std::int64_t attended_heads() const { return div_up(heads, exchanging) * exchanging; }
  double scores() const {
    return static_cast<double>(samples * attended_heads()) * static_cast<double>(queries) * static_cast<double>(keys);
  }
};

struct Attention {
  double forward, backward;
};
/// In tiles the mean of all layers, of which some may see a window alone; scores that are kept whole are made whole.
Attention attention_seconds(const Block& block, const arch::ModelConfig& model, const Machine& machine, const System& system) {
  if (system.tiled_attention) {
    const double rate = machine.attention_rate(system.element_bytes);
    const auto of = [&](std::int64_t seen) {
      const TiledAttention flops =
          tiled_attention(block.samples * block.attended_heads(), block.queries, block.keys, block.head_size, seen);
      return Attention{.forward = flops.forward / rate, .backward = flops.backward / rate};
    };
    const Attention whole = of(block.keys);
    if (!arch::has_window(model, block.keys)) return whole;
    const Attention windowed = of(model.window);
    std::int64_t windows = 0;
    for (std::int64_t layer = 0; layer < model.layers; ++layer) windows += arch::sees_window(model, layer) ? 1 : 0;
    const double share = static_cast<double>(windows) / static_cast<double>(model.layers);
    return {.forward = whole.forward + share * (windowed.forward - whole.forward),
            .backward = whole.backward + share * (windowed.backward - whole.backward)};
  }
  const std::int64_t batch = block.samples * block.attended_heads();
  const double products = product_seconds(block.queries, block.head_size, block.keys, machine, system.element_bytes, batch) +
                          product_seconds(block.queries, block.keys, block.head_size, machine, system.element_bytes, batch);
  // Softmax, dropout and its mask over the scores, once more and back in the backward pass.
  return {.forward = products + 9 * block.scores() / machine.memory_rate,
          .backward = 2 * products + 11 * block.scores() / machine.memory_rate};
}

/// Passes over memory that products do not make, told for elements of 2 bytes.
struct Elementwise {
  double forward, backward;
};
Elementwise elementwise_seconds(const Block& block, const arch::ModelConfig& model, const Machine& machine,
                                const System& system) {
  const System::Passes& passes = system.passes;
  const double told = system.element_bytes / 2 / (system.memory_part * machine.memory_rate);
  const double dropped = model.dropout > 0 ? passes.dropout : 0;
  return {.forward = ((passes.row_forward + dropped) * block.rows_wide + passes.ffn_forward * block.rows_ffn) * told,
          .backward = ((passes.row_backward + dropped) * block.rows_wide + passes.ffn_backward * block.rows_ffn) * told};
}

/// One of the sums behind attention and feed-forward, which a block's tensor ranks add up in a pass.
double layer_sum_seconds(const arch::ModelConfig& model, const Block& block, const layout::ParallelPlan& plan,
                         const Machine& machine, const System& system) {
  if (plan.tp == 1) return 0;
  const double row = static_cast<double>(block.rows) * static_cast<double>(model.width);
  return sum_seconds(system.sum_bytes * row, tensor_group(plan, machine), machine);
}

}  // namespace

TiledAttention tiled_attention(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t head_size,
                               std::int64_t seen) {
  const auto all = static_cast<double>(keys), most = static_cast<double>(seen), block = std::min(64.0, all);
  // The first queries see fewer keys than the window has. A window's far edge cuts tiles as the diagonal does.
  const double mean = most * (1 - most / (2 * all)) + block / 2 * (2 - most / all);
  const double forward = 4 * static_cast<double>(batch * head_size * queries) * mean;
  return {.forward = forward, .backward = 2.5 * forward};
}

double product_seconds(std::int64_t m, std::int64_t k, std::int64_t n, const Machine& machine, double element_bytes,
                       std::int64_t batch) {
  const double rows = static_cast<double>(m), inner = static_cast<double>(k), columns = static_cast<double>(n);
  const double many = static_cast<double>(batch);
  const double filled = machine.units == 0 ? 1 : best_fill(m, n, batch, machine.units).total();
  const double terms = inner + machine.product_depth;
  const double computing = 2 * rows * terms * columns * many / (machine.product_rate(element_bytes) * filled);
  const double moving = element_bytes * many * (rows * inner + inner * columns + rows * columns) / machine.memory_rate;
  return std::max(computing, moving);
}

BlockWork block_work(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan,
                     const Machine& machine, const System& system) {
  const Block block(model, microbatch, plan);
  const Attention attention = attention_seconds(block, model, machine, system);
  const Elementwise elementwise = elementwise_seconds(block, model, machine, system);
  const double element = system.element_bytes;
  BlockWork work;
  for (const Linear& layer : block.linears()) {
    work.forward += product_seconds(block.rows, layer.in, layer.out, machine, element);
    work.input_backward += product_seconds(block.rows, layer.out, layer.in, machine, element);
    work.weight_backward += product_seconds(layer.in, block.rows, layer.out, machine, element);
  }
  const double forward_products = work.forward;
  work.forward += attention.forward + elementwise.forward;
  work.input_backward += attention.backward + elementwise.backward;
  const double weight_products = work.weight_backward;
  work.weight_backward += system.added_bytes * block.weights() / machine.in_place_rate();
  const double sum = layer_sum_seconds(model, block, plan, machine, system), sums = 2 * sum;
  const ContextSeconds context = context_seconds({.rows = static_cast<double>(block.rows),
                                                  .heads = block.heads,
                                                  .kv_heads = block.kv_heads,
                                                  .head_size = block.head_size,
                                                  .element_bytes = element,
                                                  .forward = attention.forward,
                                                  .backward = attention.backward},
                                                 plan, machine);
  // A sum hides under the products beside it; in the backward pass these are products of weight gradients.
  const auto under = [&](double products, bool hidden) {
    return hidden ? std::max(sums / 4, beside(sums, products, system)) : sums;
  };
  work.exchange = under(forward_products, system.hidden_sums == System::HiddenSums::all) + context.forward;
  work.exchange_backward = under(weight_products, system.hidden_sums != System::HiddenSums::none) + context.backward;
  if (plan.recompute.kind == layout::Recompute::Kind::full) {
    // The result of the last of the blocks that are run again together is not needed.
    const double unneeded = system.spares_again ? 1.0 / plan.recompute.every : 0;
    work.recompute = work.forward - unneeded * product_seconds(block.rows, block.down.in, block.down.out, machine, element);
    work.exchange_recompute = work.exchange - unneeded * sum;
  } else if (plan.recompute.kind == layout::Recompute::Kind::selective) {
    const auto part_of = [&](const Linear& layer, double part) {
      return part * product_seconds(block.rows, layer.in, layer.out, machine, element);
    };
    switch (system.selective) {
      case System::Selective::first_product:
        work.recompute = part_of(block.up, 1);
        break;
      case System::Selective::attention:
        work.recompute = attention.forward;
        break;
      case System::Selective::other_products:  // keys, attention's output, one product of the feed-forward layer
        work.exchange_recompute = sum;         // the gathers alone: scattered sums are kept
        work.recompute = part_of(block.qkv, 1.0 / 3) + part_of(block.attended, 1) + part_of(block.up, 0.5) + elementwise.forward;
    }
  }
  return work;
}

HeadWork head_work(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan,
                   const Machine& machine, const System& system) {
  const double element = system.element_bytes;
  const std::int64_t rows = microbatch.samples * div_up(microbatch.positions, plan.cp),
                     tokens = div_up(model.vocabulary, plan.tp);
  const double logits = system.logit_bytes / 3 * static_cast<double>(rows) * static_cast<double>(tokens) /
                        (system.memory_part * machine.memory_rate);
  return {.forward = product_seconds(rows, model.width, tokens, machine, element) + logits,
          .input_backward = product_seconds(rows, tokens, model.width, machine, element) + logits,
          .weight_backward = product_seconds(model.width, rows, tokens, machine, element) + logits};
}

}  // namespace lockstep::planner
