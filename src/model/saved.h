#pragma once

// What the forward pass keeps for the backward pass, and what both use and forget. Shapes are written with these letters:
// - R rows (tokens of a micro-batch), of which Ro are outside of the sub-layers' boundaries (parallel/boundary)
// - C width, F feed-forward width, U = F or (with a gate) 2 F
// - H heads, K key/value heads, D head size

#include "arch/config.h"
#include "parallel/boundary.h"
#include "parallel/context_attention.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// Rows on the two sides of a boundary.
struct Rows {
  std::int64_t inside = 0;   ///< R
  std::int64_t outside = 0;  ///< Ro
  std::int64_t judged = 0;   ///< the rows whose losses the head makes: R, or those of whole samples
  parallel::BoundaryKind kind = parallel::BoundaryKind::local;
  bool carries() const { return kind != parallel::BoundaryKind::local; }
  bool split() const { return kind == parallel::BoundaryKind::splitting; }
};
/// The rows of micro-batches of at most `tokens`. Their `kind` is that of the boundary that carries most. If one boundary splits
/// rows, all do.
Rows rows_of(const parallel::Boundaries& boundaries, const parallel::TokenGrid& tokens);

/// A sub-layer's branch [Ro, C] before the norm behind it, and that norm's statistics [Ro, 2] f32.
struct SavedBranch {
  Tensor rows, stats;
};

/// What one block keeps for one micro-batch: in the type of activations, but for statistics (f32). Norms' outputs and activations
/// are computed again from these tensors. Rows of the wide tensors (qkv, those of [R, U] or [R, F]) may lie further apart than
/// they are long: Arena::declare_spread.
struct BlockSaved {
  // Until the gradient of the block's input is made:
  Tensor x;         ///< [Ro, C] the block's input
  Tensor stats1;    ///< [Ro, 2]
  Tensor qkv;       ///< [R, (H + 2K) D]; q and k turned by their position, unless qk has them
  Tensor qk;        ///< [R, (H + K) D], where heads are normalised: q and k after that, turned; qkv is as the product made it
  Tensor qk_stats;  ///< [(H + K) R, 2], of norms head by head; [2 R] where all queries have one norm, all keys another
  parallel::AttentionSaved attention_saved;
  Tensor middle;  ///< [Ro, C] after the attention sub-layer
  Tensor stats2;  ///< [Ro, 2]
  /// What attention and the feed-forward layer gave to the norms behind them, where there are such norms.
  SavedBranch branch1, branch2;
  // Until the weight gradients are made:
  Tensor attention;       ///< [R, H D]
  Tensor pre_activation;  ///< [R, U]: the gate, where there is one, and what goes up; backward puts the activation in its place
};
/// Sizes that a block's memory is declared for.
struct BlockSizes {
  const layout::ShardedDims& dims;
  Rows rows;
  DType type;  ///< of activations
  parallel::ContextAttention& attention;
  std::int64_t tile_sums = 0;  ///< arch::tile_sums()
};
struct SavedNeeds {
  bool x = true;     ///< false: the input lies elsewhere
  bool kept = true;  ///< what only the gradient of the input needs, beside x
  bool attention = true, pre_activation = true;
};
void declare(Arena& arena, BlockSaved& saved, const BlockSizes& sizes, const SavedNeeds& needs = {});

/// What weight gradients that are made later need of the input's backward pass, beside `attention` and `pre_activation`.
struct BlockDeferred {
  Tensor attention_normed, mlp_normed;  ///< [R, C] outputs of the sub-layers' norms
  Tensor attention_d, mlp_d;            ///< [R, C] gradients of what the sub-layers' last products made
  Tensor d_qkv;                         ///< [R, (H + 2K) D]
  Tensor d_hidden;                      ///< [R, U]
  Tensor adapters;                      ///< as in Scratch
  Tensor attention, pre_activation;     ///< as in BlockSaved, where the backward pass makes them again
};
/// `again` says which of attention and pre_activation are made again.
void declare(Arena& arena, BlockDeferred& deferred, const BlockSizes& sizes, const SavedNeeds& again);

/// Temporaries of one block's passes; they share bytes where their lives do not overlap.
struct Scratch {
  Tensor normed;       ///< [Ro, C] output of the sub-layer's norm
  Tensor branch;       ///< [Ro, C] output of the sub-layer before dropout; its gradient on the way back
  Tensor activated;    ///< [R, F]
  Tensor d_hidden;     ///< [R, U]
  Tensor d_normed;     ///< [Ro, C]
  Tensor d_attention;  ///< [R, H D]
  Tensor d_qkv;        ///< [R, (H + 2K) D]
  Tensor width_sums;   ///< [8, 2 R] f32, where all queries are normalised together: sums of ranges of heads (model/width_norm)
  // Where something is carried over the boundary:
  Tensor partial;                  ///< [R, C] f32: sums over a part of the features
  Tensor sums;                     ///< [Ro, C] f32: over all of them; where rows are not split they take the place of `partial`
  Tensor normed_inside, d_inside;  ///< [R, C] rows of all ranks, where rows are split
  Tensor tile_sums;  ///< [R, BlockSizes::tile_sums] f32: what is summed from tile to tile of a matrix, or of its adapters
  /// [2 R a, r]: what a block's `a` adapters have between A and B. Its gradient lies behind it.
  Tensor adapters;
  std::int64_t adapter_places = 1;  ///< 2 a
  /// The gradient of the branch is needed when the residual stream's has changed: it is copied into `branch`.
  bool keeps_branch = false;
};
/// What passes need of Scratch.
struct ScratchNeeds {
  bool input_backward = false;   ///< with attention's own temporaries
  bool weight_backward = false;  ///< weight gradients are made in the same visit
  bool branch = false;
};
void declare(Arena& arena, Scratch& scratch, const BlockSizes& sizes, const ScratchNeeds& needs);

/// Temporaries of the sub-layers' backward passes. What weight gradients need lies in `deferred`.
struct BackwardScratch {
  explicit BackwardScratch(const Scratch& scratch) : attention(scratch), mlp(scratch) {}
  BackwardScratch(const Scratch& scratch, const BlockDeferred& deferred);
  Scratch attention, mlp;
};

}  // namespace lockstep::model
