#pragma once

// Seconds of one micro-batch's passes through one block, and through the head, on a rank with its part of both.

#include "arch/config.h"
#include "planner/exchange.h"
#include "planner/system.h"

namespace lockstep::planner {

/// FLOPs of causal attention in tiles, for `batch` heads. Forward is two products for each block of 64 keys that the mask does
/// not hide; blocks on the diagonal count whole. Backward computes the scores again: five products (Dao 2023). A query sees at
/// most `seen` keys, with its own: all `keys`, or a window's.
struct TiledAttention {
  double forward, backward;
};
TiledAttention tiled_attention(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t head_size,
                               std::int64_t seen);

/// Seconds of `batch` products of [m, k] by [k, n]: of computing or of moving, whichever takes longer. Computing is in tiles of
/// the best usual size, as fast as they fill the device's units (planner/waves). Memory moves operands and result.
double product_seconds(std::int64_t m, std::int64_t k, std::int64_t n, const Machine& machine, double element_bytes,
                       std::int64_t batch = 1);

struct BlockWork {
  double forward = 0;          ///< products, attention, and passes over memory
  double recompute = 0;        ///< the part of `forward` that is recomputed before the backward pass
  double input_backward = 0;   ///< gradients of inputs
  double weight_backward = 0;  ///< gradients of weights, and their sums over micro-batches
  double exchange = 0;         ///< a forward pass's waiting for ranks that divide layers or positions
  double exchange_recompute = 0;
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
