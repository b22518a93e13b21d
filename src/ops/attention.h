#pragma once

// Causal grouped-query attention: `o = softmax(s q k^T) v`, where `s = 1 / sqrt(D)` unless said otherwise. A query sees the keys
// up to its position. B samples, T queries, S keys, H heads, K key/value heads, D head size. Keys are walked in fixed blocks of
// 64 from key 0 (numerics.md section 3.2), with an online softmax (Dao et al. 2022). Each element of a product inside is one fma
// chain in order, over D or over the keys of a block. Results between q, k, v, o and their gradients are f32, except on tensor
// cores (section 4.2). These tensors themselves are f32 or bf16.

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/dropout.h"
#include "ops/op_scope.h"
#include "ops/positions.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

/// How rows of tokens are read as heads. q and o are matrices of B*T rows, k and v of B*key_rows. Each may be a column slice of a
/// fused matrix. Head h is columns [h*D, (h+1)*D).
struct AttentionShape {
  std::int64_t samples = 0;    ///< B
  std::int64_t queries = 0;    ///< T: rows of q and o per sample
  std::int64_t keys = 0;       ///< S: keys per sample that exist; query i sits at position S - T + i, or `later` ones on
  std::int64_t key_rows = 0;   ///< rows of k and v per sample (>= S: a cache has room for more)
  std::int64_t heads = 0;      ///< H
  std::int64_t kv_heads = 0;   ///< K
  std::int64_t head_size = 0;  ///< D
  /// How many heads share a key/value head. 0: H / K, which has to be a whole number then.
  std::int64_t group = 0;
  /// How many heads of key/value head 0 come before head 0, on another rank. Head h reads key/value head (skipped + h) / group.
  std::int64_t skipped = 0;
  /// The position of key 0 in its sample, by which dropout counts. It is 0 unless the keys are a later part of the sample's.
  std::int64_t first_key = 0;
  /// By how many positions the last query lies behind the last key.
  std::int64_t later = 0;
  double scale = 0;    ///< s; 0: 1 / sqrt(D)
  double softcap = 0;  ///< scores x become softcap tanh(x / softcap) (Gemma 2); 0: they stay

  /// The place of query 0, counted from key 0: query i sees keys 0 .. first_query() + i, as far as there are any.
  constexpr std::int64_t first_query() const { return keys - queries + later; }
  /// One more than the position of the last query in its sample.
  constexpr std::int64_t end() const { return first_key + keys + later; }
  double score_scale() const { return scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(head_size)); }
  constexpr std::int64_t group_size() const { return group > 0 ? group : heads / kv_heads; }
  constexpr std::int64_t kv_head_of(std::int64_t head) const { return (skipped + head) / group_size(); }
  /// The first head that reads a key/value head. The heads of the next key/value head begin where this one's end.
  constexpr std::int64_t first_head_of(std::int64_t kv_head) const {
    return std::clamp<std::int64_t>(kv_head * group_size() - skipped, 0, heads);
  }
};

/// Floats of the backward pass' workspace for each row of q. There is one for each head. Where dq has `type` bf16, a whole row is
/// added, in which dq is summed in f32.
std::int64_t delta_columns(std::int64_t heads, std::int64_t head_size, DType type);

/// Memory in which attention's weights lie whole, one for each query and key. Without it they are made a block of keys at a time.
/// Results differ in the order of additions alone: each is one product here. Such a call has all positions of its samples as
/// queries and as keys. It is not `further`.
struct WholeWeights {
  Tensor weights = {};  ///< [B*H*T, S] f32: forward() leaves the softmax here for backward(), which overwrites it
  Tensor aside = {};    ///< [B*H*T, S] f32, workspace of the caller
  /// [T, S] f32 or empty: forward() stores there what hides keys (0 or -infinity) and adds it to scores, with the same bits.
  Tensor mask = {};
  explicit operator bool() const { return static_cast<bool>(weights); }
};

struct AttentionForward {
  Tensor o;        ///< [B*T, H*D], the result, like q or f32
  Tensor lse;      ///< [B*H, T] f32 = log sum exp of each row's scores, for the backward pass; empty when none follows
  Tensor q, k, v;  ///< as `shape` says
  AttentionShape shape;
  DropoutSite dropout = {};
  /// o (f32) and lse hold the result for other keys already. The online softmax goes on from there over this call's keys.
  bool further = false;
  /// [B, positions of a sample] i32: where the document of each position starts (ops/positions.h). A query sees no key before its
  /// document. In the first of several calls every query sees a key.
  Tensor starts = {};
  WholeWeights whole = {};  ///< lse is not written when there are whole weights
};

/// Neighbouring heads that share a key/value head. Their part of that head's gradients is summed by itself. The parts' sums are
/// then added as a binary tree over `range` adds them (numerics.md section 3.8).
struct HeadPart {
  std::int64_t kv_head = 0, first = 0, count = 0;
  int range = 0;
};
inline constexpr int most_head_ranges = 8;

struct AttentionBackward {
  /// Their type is that of q, k and v, or f32. dk and dv are these queries' part of the gradients of k and v. Rows behind the S
  /// keys are left as they are.
  Tensor dq, dk, dv;
  Tensor delta;   ///< f32, workspace of the caller: delta_columns() for each of the B*T rows, with whole weights that of f32
  Tensor d_o;     ///< the gradient of o
  Tensor o, lse;  ///< the forward pass' results over all keys, also where it took several calls
  Tensor q, k, v;
  AttentionShape shape;
  DropoutSite dropout = {};
  bool further = false;  ///< dq, dk and dv are f32 and hold sums, to which these gradients are added
  Tensor starts = {};
  /// Every head is in one part, in order. dk and dv are summed part by part; the call is not `further` then. Empty: head by head.
  std::span<const HeadPart> parts = {};
  Tensor part_sums = {};  ///< [2, B*S, parts * D] f32, workspace of the caller, with parts
  /// The weights as forward() left them; `parts` is empty then. lse is not read. dk and dv of heads that share keys are f32.
  WholeWeights whole = {};
};

/// Some positions of a text whose keys lie in a cache.
struct CachedText {
  std::int64_t first = 0, rows = 0;  ///< the text's rows of q and o
  std::int64_t position = 0;         ///< position of the first row; the cache has the keys of all positions up to the last row's
  std::int64_t text = 0;             ///< the text's row of the page table
};
inline constexpr std::int64_t page_keys = 64;  ///< keys of a page, as many as of a block

/// Attention over keys and values that texts keep in pages: each row has the bits of a call for its text alone.
struct CachedAttention {
  Tensor o, q;   ///< [R, H*D]
  Tensor k, v;   ///< [pages * 64, K*D]
  Tensor pages;  ///< [texts, n] i32: key `64 i + j` of a text, j < 64, is row `64 pages[text][i] + j` of k and v
  std::span<const CachedText> texts;
  AttentionShape shape;  ///< only what it says of heads and scores counts; the rest is the texts' own
  Tensor starts = {};    ///< [1, positions] i32 or empty: the query at a position sees no key before starts[position]
};

class Attention : public Family {
 public:
  explicit Attention(OpObserver* observer) : Family("attention", observer) {}
  void forward(const AttentionForward& call);
  void forward(const CachedAttention& call);
  void backward(const AttentionBackward& call);

 private:
  virtual void do_forward(const AttentionForward& call) = 0;
  virtual void do_forward(const CachedAttention& call) = 0;
  virtual void do_backward(const AttentionBackward& call) = 0;
};

}  // namespace lockstep::ops
