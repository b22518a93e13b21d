#pragma once

// Sizes of this rank's share of the model and where it begins, computed once. Layers use these sizes and never ask for a rank.

#include <cstdint>

namespace lockstep::layout {

struct ShardedDims {
  std::int64_t width = 0;         ///< C, of the residual stream
  std::int64_t heads = 0;         ///< H
  std::int64_t kv_heads = 0;      ///< K
  std::int64_t head_size = 0;     ///< D
  std::int64_t ffn_width = 0;     ///< F
  bool gated = false;             ///< the feed-forward layer has a gate beside what goes up
  bool qk_norm = false;           ///< queries and keys are normalised head by head
  bool qk_norm_whole = false;     ///< all heads of queries are normalised together, and all of keys
  bool pre_norm = true;           ///< what attention and the feed-forward layer read is normalised
  bool post_norm = false;         ///< what attention and the feed-forward layer give is normalised
  bool scales_branches = false;   ///< what attention and the feed-forward layer give is multiplied
  bool caps_logits = false;       ///< logits go through a hyperbolic tangent
  std::int64_t adapters = 0;      ///< low-rank products beside those of a block's matrices
  std::int64_t adapter_rank = 0;  ///< r, of every adapter
  std::int64_t vocabulary = 0;    ///< V: tokens, those of the rank's part where the vocabulary is divided

  std::int64_t all_heads = 0;      ///< of the model
  std::int64_t first_head = 0;     ///< of the model's
  std::int64_t first_kv_head = 0;  ///< of the model's
  std::int64_t heads_per_kv = 1;   ///< heads of the model that share a KV head; the rank's first and last may have fewer
  std::int64_t first_token = 0;    ///< the first row of the vocabulary
  int vocabulary_part = 0;         ///< the part's number
  int vocabulary_parts = 1;        ///< 1: the vocabulary is whole

  /// Tokens of the greatest part, the same on every rank.
  std::int64_t greatest_vocabulary = 0;

  /// The KV head, of those here, that head `head` of those here uses.
  std::int64_t kv_head_of(std::int64_t head) const { return (first_head + head) / heads_per_kv - first_kv_head; }
  std::int64_t attention_width() const { return heads * head_size; }
  std::int64_t kv_width() const { return kv_heads * head_size; }
  std::int64_t qkv_width() const { return attention_width() + 2 * kv_width(); }
  /// U: F, or 2 F with a gate, whose part comes first.
  std::int64_t up_width() const { return gated ? 2 * ffn_width : ffn_width; }
};

}  // namespace lockstep::layout
