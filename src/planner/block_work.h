#pragma once

// Seconds of one micro-batch's passes through one block, and through the head, on a rank that has its part of them.

#include "arch/config.h"
#include "planner/exchange.h"
#include "planner/system.h"

namespace lockstep::planner {

/// FLOPs of `batch` heads' causal attention in tiles. Forward is two products for each block of 64 keys that the mask does not
/// hide; blocks on the diagonal count whole. Backward makes the scores again: five products (Dao 2023). A query sees at most
/// `seen` keys, its own among them: `keys`, or a window's.
struct TiledAttention {
  double forward, backward;
};
TiledAttention tiled_attention(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t head_size,
                               std::int64_t seen);

/// Seconds of `batch` products of [m, k] by [k, n]: of computing or of moving, whichever takes longer. Tiles of the best of the
/// usual sizes compute as they fill the device's units (planner/waves). Memory moves operands and result.
double product_seconds(std::int64_t m, std::int64_t k, std::int64_t n, const Machine& machine, double element_bytes,
                       std::int64_t batch = 1);

struct BlockWork {
  double forward = 0;          ///< products, attention, and passes over memory
  double again = 0;            ///< of them, what is made again before the backward pass
  double input_backward = 0;   ///< gradients of inputs
  double weight_backward = 0;  ///< gradients of weights, and their sums over micro-batches
  double exchange = 0;         ///< that a forward pass waits for: of ranks that divide layers or positions
  double exchange_again = 0;
  double exchange_backward = 0;
};

struct MicrobatchSize {
  std::int64_t samples = 1, positions = 1;  ///< on a data-parallel rank, before context parallelism divides them
};

BlockWork block_work(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan,
                     const Machine& machine, const System& system);

struct HeadWork {
  double forward = 0, input_backward = 0, weight_backward = 0;
};
HeadWork head_work(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan,
                   const Machine& machine, const System& system);

}  // namespace lockstep::planner
