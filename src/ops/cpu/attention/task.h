#pragma once

// What one call of an attention kernel computes, and the workspace it computes in. A kernel takes a whole task. The class in
// attention.h cuts a call into tasks and deals them out. forward.cpp and backward.cpp compute tasks, for every instruction set.
//
// The order of additions (numerics.md section 3) is the same for every cut. Scores are one fma chain over the head's elements.
// Keys come in blocks of 64 from key 0. Products over a block are one chain, and blocks are merged in order. Dead terms of a
// chain (masked weights are 0) may be left out. They change at most the sign of a zero, and results are stored as x + 0. What a
// caller stores as bf16 is widened when it is read. A result is rounded once, when it is complete.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "ops/cpu/product/thin.h"
#include "ops/dropout.h"

namespace lockstep::ops::cpu {

/// Rows of one head as the caller stores them, f32 or bf16: row i starts i * stride elements after the first.
struct StoredRows {
  std::byte* data = nullptr;
  std::int64_t stride = 0;
  DType type = DType::f32;
  std::int64_t bytes(std::int64_t elements) const { return elements * (type == DType::bf16 ? 2 : 4); }
  StoredRows from(std::int64_t row) const { return {data + bytes(row * stride), stride, type}; }
  StoredRows columns_from(std::int64_t column) const { return {data + bytes(column), stride, type}; }
};

/// Rows of floats: row i starts at `data + i * stride`.
struct HeadRows {
  float* data = nullptr;
  std::int64_t stride = 0;
  HeadRows from(std::int64_t row) const { return {data + row * stride, stride}; }
  HeadRows columns_from(std::int64_t column) const { return {data + column, stride}; }
};

inline constexpr std::int64_t key_block = 64;         ///< keys, and in the backward pass queries, per block
inline constexpr std::int64_t max_head_size = 256;    ///< the largest that the workspace has room for
inline constexpr std::int64_t score_stride = 80;      ///< floats between rows of scores: 64, and a pad against cache conflicts
inline constexpr std::int64_t forward_sub_rows = 48;  ///< query rows whose scores exist at a time
inline constexpr std::int64_t lanes = 16;             ///< partial sums of every sum inside a row

/// Floats between rows of `head_size` elements in the workspace: whole vectors at every width.
constexpr std::int64_t padded(std::int64_t head_size) { return (head_size + 31) / 32 * 32; }
/// Query rows of one forward task. Any value gives the same bits; this one keeps their sums in the second-level cache.
constexpr std::int64_t forward_rows(std::int64_t head_size) {
  return std::clamp<std::int64_t>(64 * 256 / padded(head_size) / 64 * 64, 64, 256);
}

/// Where attention weights are dropped.
struct WeightDropout {
  const DropoutSite* site = nullptr;  ///< nullptr: nowhere
  std::int64_t sample = 0;
  std::int64_t head = 0;  ///< the task's first
};

/// o and lse of `rows` queries of one head. Rows of k and v start at key 0.
struct ForwardTask {
  StoredRows q, k, v, o;
  float* lse = nullptr;  ///< [rows] or nullptr
  std::int64_t rows = 0;
  std::int64_t keys = 0;       ///< that exist
  std::int64_t position = 0;   ///< of the first query, counted from key 0
  std::int64_t first_key = 0;  ///< position of key 0 in its sample
  bool further = false;        ///< o and lse hold the result of other keys
  const std::int32_t* starts =
      nullptr;  ///< [rows]: positions in the sample before which a query sees no key; nullptr: it sees all
  std::int64_t head_size = 0;
  float scale = 1;
  float softcap = 0;  ///< of scores before they are scaled; 0: none
  WeightDropout dropout;
  ThinKernel thin = nullptr;            ///< for one row: scores of keys that are not packed
  const std::int32_t* pages = nullptr;  ///< for each block of keys its block of rows in k and v; nullptr: they lie in order

  /// The row of k or v (`stored`) that has `key`. The rows of the other keys of its block follow it.
  StoredRows at(const StoredRows& stored, std::int64_t key) const {
    return stored.from(pages == nullptr ? key : pages[key / key_block] * key_block + key % key_block);
  }
};

/// delta = rowsum(d_o * o) of `rows` queries of one head.
struct DeltaTask {
  StoredRows d_o, o;
  float* delta = nullptr;  ///< [rows]
  std::int64_t rows = 0;
  std::int64_t head_size = 0;
};

/// How far a worker has come along a column of blocks. The worker of the next column reads it, so that key blocks add to dq in
/// order.
struct alignas(64) Progress {
  std::atomic<std::int64_t> steps{0};
};

/// dk and dv of one block of keys of one key/value head, and the block's part of dq of all queries that see it. Blocks of queries
/// end at multiples of 64, counted from key 0. A step is one (head of the group, query block) in order. Step s adds to dq when
/// `before` has reached before_base + s + 1.
struct BackwardTask {
  StoredRows q, k, v, d_o, dq, dk, dv;  ///< rows of the whole sample; q, d_o, dq: the group's first head
  StoredRows dq_sums;                   ///< f32: dq while blocks of keys are still to come; dq itself where that is f32
  bool stream = false;                  ///< dq, dk and dv are stored past the caches when they are whole
  const float* lse = nullptr;           ///< [group, rows]
  const float* delta = nullptr;         ///< [group, rows]
  std::int64_t rows = 0;
  std::int64_t keys = 0;                 ///< that exist
  std::int64_t position = 0;             ///< of the first query, counted from key 0
  std::int64_t first_key = 0;            ///< position of key 0 in its sample
  bool further = false;                  ///< dq, dk and dv are added to
  const std::int32_t* starts = nullptr;  ///< [rows]
  std::int64_t block = 0;                ///< keys [64 block, 64 block + 64)
  std::int64_t group = 1;                ///< heads that share k and v
  std::int64_t head_size = 0;
  float scale = 1;
  float softcap = 0;  ///< of scores before they are scaled; 0: none
  WeightDropout dropout;
  Progress* own = nullptr;
  std::int64_t own_base = 0;
  const Progress* before = nullptr;  ///< nullptr: no task comes before
  std::int64_t before_base = 0;
};

/// Floats of a worker's workspace, for any head size up to max_head_size.
constexpr std::int64_t forward_floats() {
  return 3 * key_block * max_head_size + 2 * 64 * 256 + forward_sub_rows * score_stride + 256 * (lanes + 2) + 4 * 64;
}
constexpr std::int64_t backward_floats() { return 10 * key_block * max_head_size + 2 * key_block * score_stride + 2 * key_block; }
constexpr std::int64_t workspace_floats() { return std::max(forward_floats(), backward_floats()); }

using ForwardKernel = void (*)(const ForwardTask& task, float* workspace);
using DeltaKernel = void (*)(const DeltaTask& task);
using BackwardKernel = void (*)(const BackwardTask& task, float* workspace);

/// The kernels of the instruction set that a ScopedIsa names.
ForwardKernel attention_forward_kernel();
DeltaKernel attention_delta_kernel();
BackwardKernel attention_backward_kernel();

}  // namespace lockstep::ops::cpu
