// Attention's backward kernels: for one block of 64 keys of one key/value head, all blocks of 64 queries that see it, in
// order. Five products a block; weights are computed again from lse.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention/backward.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include <hwy/cache_control.h>
// clang-format on

#include <thread>

#include "ops/cpu/attention/task.h"
// clang-format off: lanes-inl.h comes first
#include "ops/cpu/simd/lanes-inl.h"
#include "ops/cpu/simd/philox-inl.h"
#include "ops/cpu/simd/vector_math-inl.h"
#include "ops/cpu/attention/tile-inl.h"
#include "ops/cpu/attention/dropout-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

/// A worker's workspace: places for what is widened, packed operands, sums of a column of blocks, scores.
struct BackwardSpace {
  float *wide_queries, *wide_d_outputs, *keys, *keys_transposed, *values_transposed, *queries, *d_outputs, *dk, *dv, *dq;
  float *weights, *d_scores;
  explicit BackwardSpace(float* at) {
    const auto take = [&](Index floats) {
      float* taken = at;
      at += floats;
      return taken;
    };
    for (float** matrix :
         {&wide_queries, &wide_d_outputs, &keys, &keys_transposed, &values_transposed, &queries, &d_outputs, &dk, &dv, &dq}) {
      *matrix = take(key_block * max_head_size);
    }
    weights = take(key_block * score_stride);
    d_scores = take(key_block * score_stride);
  }
};

/// One block of queries of one head of the group: where its rows begin and which keys they see.
struct QueryBlock {
  StoredRows q, d_o;
  StoredRows dq, dq_sums;  // the same while blocks of keys are to come
  bool stream;             // dq goes past the caches
  const float *lse, *delta;
  Index rows;        // <= 64
  Index rows_after;  // of the next block, 0 at the end
  Sight sight;       // of the key block
  Index position;    // of row 0, counted from key 0
  Index head;        // of the task's group
};

/// weights = exp(scores * scale - lse), 0 where masked; d_scores = weights * (d_scores - delta), where d_scores holds d_o
/// times the transpose of v. Scores that are capped have a slope.
template <bool dropped, bool capped>
HWY_INLINE void weights_of_row(const BackwardTask& task, float lse, float delta, Index seen, const float* factors, float* weights,
                               float* d_scores) {
  const Tag d;
  const Vector f = hn::Set(d, task.scale * log2_e), shift = hn::Set(d, -lse * log2_e), subtract = hn::Set(d, delta);
  const Vector part = hn::Set(d, capped ? 1 / task.softcap : 0);
  const auto vector_at = [&](Index j, Vector& weight, Vector& d_score) HWY_ATTR {
    const Vector score = hn::Load(d, weights + j);
    weight = weight_of(hn::MulAdd(score, f, shift));
    Vector d_weight = hn::Load(d, d_scores + j);
    if constexpr (dropped) d_weight = hn::Mul(d_weight, hn::Load(d, factors + j));
    d_score = hn::Mul(weight, hn::Sub(d_weight, subtract));
    if constexpr (capped) {
      const Vector tanh = hn::Mul(score, part);
      d_score = hn::Mul(d_score, hn::NegMulAdd(tanh, tanh, hn::Set(d, 1.0F)));
    }
    if constexpr (dropped) weight = hn::Mul(weight, hn::Load(d, factors + j));
  };
  Vector weight, d_score;
  Index j = 0;
  for (; j + width <= seen; j += width) {
    vector_at(j, weight, d_score);
    hn::Store(weight, d, weights + j);
    hn::Store(d_score, d, d_scores + j);
  }
  for (const Index end = std::min(seen + tile_rows - 1, key_block); j < end; j += width) {
    vector_at(j, weight, d_score);
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::max<Index>(seen - j, 0)));
    hn::Store(hn::IfThenElseZero(mask, weight), d, weights + j);
    hn::Store(hn::IfThenElseZero(mask, d_score), d, d_scores + j);
  }
}

template <bool capped>
HWY_INLINE void weights_of_block(const BackwardTask& task, const QueryBlock& block, const BackwardSpace& space) {
  for (Index r = 0; r < block.rows; ++r) {
    weights_of_row<false, capped>(task, block.lse[r], block.delta[r], block.sight.of(r), nullptr,
                                  space.weights + r * score_stride, space.d_scores + r * score_stride);
  }
}

template <bool capped>
HWY_NOINLINE void dropped_weights_of_block(const BackwardTask& task, const QueryBlock& block, const BackwardSpace& space) {
  const MaskRow mask(task.dropout);
  HWY_ALIGN float factors[key_block];
  for (Index r = 0; r < block.rows; ++r) {
    mask.draw(task.dropout.head + block.head, task.first_key + block.position + r, task.first_key + task.block * key_block,
              factors);
    weights_of_row<true, capped>(task, block.lse[r], block.delta[r], block.sight.of(r), factors, space.weights + r * score_stride,
                                 space.d_scores + r * score_stride);
  }
}

/// Takes away what rows do not see because it lies before their documents.
HWY_INLINE void hide(const QueryBlock& block, const BackwardSpace& space) {
  for (Index r = 0; r < block.rows; ++r) {
    std::fill_n(space.weights + r * score_stride, block.sight.hidden(r), 0.0f);
    std::fill_n(space.d_scores + r * score_stride, block.sight.hidden(r), 0.0f);
  }
}

/// sums [64, head_size] += scale * transpose(scores) times packed rows: one chain over the block's queries.
HWY_INLINE void key_product(const QueryBlock& block, Index head_size, const float* scores, const float* panels, float scale,
                            float* sums) {
  const Index stride = padded(head_size);
  for (Index i = 0; i < block.sight.keys; i += tile_rows) {
    const Index in_tile = std::min(tile_rows, block.sight.keys - i);
    const Index first = block.sight.rows_before(i, block.rows);
    for (Index c = 0; c < head_size; c += panel) {
      tile_of(in_tile, ScoreColumns{scores + first * score_stride + i}, panels + c * key_block + first * panel,
              block.rows - first, Accumulate{sums + i * stride + c, stride, scale});
    }
  }
}

/// space.dq = scale * d_scores times keys, added to what is there.
HWY_INLINE void query_product(const BackwardTask& task, const QueryBlock& block, const BackwardSpace& space) {
  const Index stride = padded(task.head_size);
  for (Index i = 0; i < block.rows; i += tile_rows) {
    const Index in_tile = std::min(tile_rows, block.rows - i);
    const Index count = block.sight.of(i + in_tile - 1);
    for (Index c = 0; c < task.head_size; c += panel) {
      tile_of(in_tile, ScoreRows{space.d_scores + i * score_stride}, space.keys + c * key_block, count,
              Accumulate{space.dq + i * stride + c, stride, task.scale});
    }
  }
}

/// Rows between a caller's matrix and the workspace.
HWY_INLINE void load_rows(StoredRows from, Index rows, Index columns, float* to) {
  const Index stride = padded(columns);
  for (Index r = 0; r < rows; ++r) std::copy_n(reinterpret_cast<const float*>(from.from(r).data), columns, to + r * stride);
}
HWY_INLINE void store_rows(const float* from, Index rows, Index columns, StoredRows to, bool stream) {
  const Index stride = padded(columns);
  for (Index r = 0; r < rows; ++r) {
    store_row(to.from(r), columns, [&](Index c) HWY_ATTR { return Load16(from + r * stride + c); }, stream);
  }
}

/// Until the worker of the previous column has added its part of this step.
inline void await(const Progress* before, Index steps) {
  for (int turn = 0; before->steps.load(std::memory_order_acquire) < steps; ++turn) {
    if (turn < 4096) {
      hwy::Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

/// The block's scores and their gradient, and its part of dk and dv.
void make_keys(const BackwardTask& task, const QueryBlock& block, const BackwardSpace& space) {
  const HeadRows q = widened(block.q, block.rows, task.head_size, space.wide_queries);
  const HeadRows d_o = widened(block.d_o, block.rows, task.head_size, space.wide_d_outputs);
  pack_panels(q, block.rows, task.head_size, space.queries);
  pack_panels(d_o, block.rows, task.head_size, space.d_outputs);
  score_product(q, block.rows, block.sight, space.keys_transposed, task.head_size, space.weights);
  score_product(d_o, block.rows, block.sight, space.values_transposed, task.head_size, space.d_scores);
  const bool capped = task.softcap > 0;
  if (capped) cap_scores(block.rows, block.sight, task.softcap, space.weights);
  if (task.dropout.site == nullptr) {
    capped ? weights_of_block<true>(task, block, space) : weights_of_block<false>(task, block, space);
  } else {
    capped ? dropped_weights_of_block<true>(task, block, space) : dropped_weights_of_block<false>(task, block, space);
  }
  if (block.sight.starts != nullptr) hide(block, space);
  prefetch_rows(block.q.from(block.rows), block.rows_after, task.head_size);
  prefetch_rows(block.d_o.from(block.rows), block.rows_after, task.head_size);
  key_product(block, task.head_size, space.weights, space.d_outputs, 1, space.dv);
  key_product(block, task.head_size, space.d_scores, space.queries, task.scale, space.dk);
}

void step(const BackwardTask& task, const QueryBlock& block, Index number, const BackwardSpace& space) {
  const bool seen = !block.sight.blind();
  if (seen) make_keys(task, block, space);
  if (task.block == 0 && !task.further) {
    std::fill(space.dq, space.dq + block.rows * padded(task.head_size), 0.0f);
  } else {
    if (task.before != nullptr) await(task.before, task.before_base + number + 1);
    load_rows(block.dq_sums, block.rows, task.head_size, space.dq);
  }
  if (seen) query_product(task, block, space);
  store_rows(space.dq, block.rows, task.head_size, block.dq, block.stream);
  task.own->steps.store(task.own_base + number + 1, std::memory_order_release);
}

void attention_backward(const BackwardTask& task, float* workspace) {
  const BackwardSpace space(workspace);
  const Index first_key = task.block * key_block;
  const Index end = task.position + task.rows;  // behind the last query
  const Index keys = std::min(key_block, task.keys - first_key);
  const Index last_block = (task.keys - 1) / key_block;
  const Index first_block = task.position / key_block;
  const Index blocks = (end + key_block - 1) / key_block;
  const HeadRows k = widened(task.k.from(first_key), keys, task.head_size, space.wide_queries);
  const HeadRows v = widened(task.v.from(first_key), keys, task.head_size, space.wide_d_outputs);
  pack_transposed(k, keys, task.head_size, space.keys_transposed);
  pack_transposed(v, keys, task.head_size, space.values_transposed);
  pack_panels(k, keys, task.head_size, space.keys);
  if (task.further) {
    load_rows(task.dk.from(first_key), keys, task.head_size, space.dk);
    load_rows(task.dv.from(first_key), keys, task.head_size, space.dv);
  } else {
    std::fill(space.dk, space.dk + key_block * padded(task.head_size), 0.0f);
    std::fill(space.dv, space.dv + key_block * padded(task.head_size), 0.0f);
  }
  for (Index head = 0; head < task.group; ++head) {
    for (Index i = std::max(task.block, first_block); i < blocks; ++i) {
      const Index position = std::max(i * key_block, task.position), row = position - task.position;
      const Index rows = std::min((i + 1) * key_block, end) - position, column = head * task.head_size;
      const StoredRows dq_sums = task.dq_sums.columns_from(column).from(row);
      const bool last = task.block == std::min(i, last_block);  // there are no later keys, or they are not seen
      const bool first = task.block == 0 && !task.further;      // there are no earlier keys, which would have dq in a cache
      const QueryBlock block{.q = task.q.columns_from(column).from(row),
                             .d_o = task.d_o.columns_from(column).from(row),
                             .dq = last ? task.dq.columns_from(column).from(row) : dq_sums,
                             .dq_sums = dq_sums,
                             .stream = task.stream && last && (first || task.dq.data != task.dq_sums.data),
                             .lse = task.lse + head * task.rows + row,
                             .delta = task.delta + head * task.rows + row,
                             .rows = rows,
                             .rows_after = std::min(task.rows - row - rows, key_block),
                             .sight = {.first = position + 1 - first_key,
                                       .keys = keys,
                                       .starts = task.starts == nullptr ? nullptr : task.starts + row,
                                       .position = task.first_key + first_key},
                             .position = position,
                             .head = head};
      step(task, block, head * (blocks - first_block) + i - first_block, space);
    }
  }
  store_rows(space.dk, keys, task.head_size, task.dk.from(first_key), task.stream);
  store_rows(space.dv, keys, task.head_size, task.dv.from(first_key), task.stream);
  if (task.stream) hwy::FlushStream();
}

void attention_delta(const DeltaTask& task) {
  for (Index r = 0; r < task.rows; ++r) {
    WithStorage(task.o.type, [&](auto zero) HWY_ATTR {
      const auto* a = reinterpret_cast<const decltype(zero)*>(task.d_o.from(r).data);
      const auto* b = reinterpret_cast<const decltype(zero)*>(task.o.from(r).data);
      Sixteen sum = Splat(0);
      ForColumns(task.head_size, [&](Index c, auto group) HWY_ATTR { sum = MulAdd(group.Load(a + c), group.Load(b + c), sum); });
      task.delta[r] = Sum(sum);
    });
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
HWY_EXPORT(attention_backward);
HWY_EXPORT(attention_delta);
BackwardKernel attention_backward_kernel() { return &HWY_DYNAMIC_DISPATCH(attention_backward); }
DeltaKernel attention_delta_kernel() { return &HWY_DYNAMIC_DISPATCH(attention_delta); }
}  // namespace lockstep::ops::cpu
#endif  // HWY_ONCE
