#pragma once

// Canonical mode (numerics.md section 3.8). Every index that a layout may divide is summed by `canonical_ranges` ranges of the
// whole index, the same in every layout. So the ranks of a layout have whole branches of one tree.

#include "layout/range.h"
#include "layout/sharded_dims.h"

namespace lockstep::layout {

inline constexpr int canonical_ranges = 8;

/// Whether `parts` ranks or micro-batches have as many ranges each, and so whole branches of the tree.
inline bool divides_canonical_ranges(std::int64_t parts) { return parts >= 1 && canonical_ranges % parts == 0; }

/// The things of range `range`, of n things of the whole model or step.
inline Range canonical_range(std::int64_t n, int range) { return part_of(n, range, canonical_ranges); }

/// Whether dividing `heads` into `parts` parts leaves some key/value head in two of them. A key/value head has `group` heads of
/// the model.
inline bool parts_share_kv_heads(const Range& heads, int parts, std::int64_t group) {
  for (int i = 1; i < parts; ++i) {
    const std::int64_t head = heads.first + part_of(heads.count, i, parts).first;
    if (head % group != 0 && head > heads.first && head < heads.end()) return true;
  }
  return false;
}

/// Whether two tensor ranks share a key/value head of the model.
inline bool tensor_ranks_share_kv_heads(const ShardedDims& dims) {
  return parts_share_kv_heads({0, dims.all_heads}, dims.vocabulary_parts, dims.heads_per_kv);
}
/// Whether two tensor ranks share a key/value head, or two ranks that exchange positions for a tensor rank's heads.
inline bool ranks_share_kv_heads(const ShardedDims& dims, int context_ranks) {
  return tensor_ranks_share_kv_heads(dims) ||
         parts_share_kv_heads({dims.first_head, dims.heads}, context_ranks, dims.heads_per_kv);
}

}  // namespace lockstep::layout
