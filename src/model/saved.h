#pragma once

// What the forward pass keeps for the backward pass, and what both use and forget. R rows (tokens of a micro-batch),
// C width, F feed-forward width, U = F or (with a gate) 2 F, H heads, K key/value heads, D head size.

#include "arch/config.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// Kept by one block for one micro-batch: in the type of activations, but for statistics (f32). Norms' outputs and activations
/// are computed again from these.
/// Rows of the wide ones (qkv, what is [R, U] or [R, F]) may lie further apart than they are long: Arena::declare_spread.
struct BlockSaved {
  Tensor x;               ///< [R, C] the block's input
  Tensor stats1;          ///< [R, 2]
  Tensor qkv;             ///< [R, (H + 2K) D]; q and k turned by their position
  Tensor attention;       ///< [R, H D]
  Tensor lse;             ///< [R, H], laid out as attention's forward wants it
  Tensor middle;          ///< [R, C] after the attention sub-layer
  Tensor stats2;          ///< [R, 2]
  Tensor pre_activation;  ///< [R, U]: the gate, where there is one, and what goes up
};
void declare(Arena& arena, BlockSaved& saved, const layout::ShardedDims& dims, std::int64_t rows, DType type);

/// Temporaries of one block's passes; they share bytes where their lives do not overlap.
struct Scratch {
  Tensor normed;       ///< [R, C] output of the sub-layer's norm
  Tensor branch;       ///< [R, C] output of the sub-layer before dropout; its gradient on the way back
  Tensor activated;    ///< [R, F]
  Tensor d_hidden;     ///< [R, U]
  Tensor d_normed;     ///< [R, C]
  Tensor d_attention;  ///< [R, H D]
  Tensor d_qkv;        ///< [R, (H + 2K) D]
  Tensor delta;        ///< [R, ops::delta_columns]
};
/// What passes need of it.
struct ScratchNeeds {
  bool backward = false;
  bool branch = false;
};
void declare(Arena& arena, Scratch& scratch, const layout::ShardedDims& dims, std::int64_t rows, DType type,
             const ScratchNeeds& needs);

}  // namespace lockstep::model
