// Attention's forward kernel. A run of queries of one head goes through blocks of 64 keys in order. In a block 48 rows at a time
// go through scores, online softmax, and weights times values.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention/forward.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

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

constexpr Index row_capacity = 256;
constexpr float lowest = -1.0e20f;  // finite times any scale that a model may have

/// A worker's workspace. `queries` and `staged` take widened rows. `sums` is o before it is divided. `largest` is each row's
/// largest unscaled score. `total` has 16 partial sums a row.
struct ForwardSpace {
  float *keys, *values, *staged, *queries, *sums, *scores, *largest, *total, *block_largest, *decay, *shift;
  explicit ForwardSpace(float* at) {
    const auto take = [&](Index floats) {
      float* taken = at;
      at += floats;
      return taken;
    };
    keys = take(key_block * max_head_size);
    values = take(key_block * max_head_size);
    staged = take(key_block * max_head_size);
    queries = take(64 * 256);
    sums = take(64 * 256);
    scores = take(forward_sub_rows * score_stride);
    total = take(row_capacity * lanes);
    largest = take(row_capacity);
    block_largest = take(64);
    decay = take(64);
    shift = take(64);
  }
};

/// How many weights of a row products may read, for a row that sees `seen` keys. The last row of its tile sees up to tile_rows -
/// 1 more. The number is rounded up to whole lanes.
HWY_INLINE Index computed(Index seen) { return std::min((seen + tile_rows - 1 + lanes - 1) / lanes * lanes, key_block); }

/// Which keys of a block its rows see: all, those up to a last one, or those from a first one to a last one.
enum class Mask : std::uint8_t { none, end, both };

/// A mask of the `width` keys from `j` on: those before `end`.
HWY_INLINE auto up_to(Index end, Index j) {
  return hn::FirstN(Tag(), static_cast<std::size_t>(std::clamp<Index>(end - j, 0, width)));
}

/// A mask of the `width` keys from `j` on: those that a row sees, which are keys `hidden` to `seen` - 1.
template <Mask mask>
HWY_INLINE auto seen_of(Index hidden, Index seen, Index j) {
  if constexpr (mask == Mask::both) {
    return hn::AndNot(up_to(hidden, j), up_to(seen, j));
  } else {
    return up_to(seen, j);
  }
}

/// The largest of the scores that each row sees.
template <Mask mask>
HWY_INLINE void block_maxima(const float* scores, Index rows, const Sight& sight, float* largest) {
  const Tag d;
  for (Index r = 0; r < rows; ++r) {
    const float* row = scores + r * score_stride;
    Vector most = hn::Set(d, lowest);
    const Index seen = mask == Mask::none ? key_block : sight.of(r), hidden = mask == Mask::both ? sight.hidden(r) : 0;
    Index j = (hidden + width - 1) / width * width;
    if (mask == Mask::both && hidden < j)
      most = hn::IfThenElse(seen_of<mask>(hidden, seen, j - width), hn::Load(d, row + j - width), most);
    for (; j + width <= seen; j += width) most = hn::Max(most, hn::Load(d, row + j));
    if (mask != Mask::none && j < seen) {
      most = hn::Max(most, hn::IfThenElse(up_to(seen, j), hn::Load(d, row + j), most));
    }
    largest[r] = hn::GetLane(hn::MaxOfLanes(d, most));
  }
}

/// Takes a block's maxima into those of `rows` rows. `decay` gets the factors of the rows' old sums. `shift` gets the terms that
/// are added to scores times scale / ln 2: weights are powers of 2.
HWY_INLINE void advance_maxima(const ForwardSpace& space, Index first, Index rows, float scale) {
  const Tag d;
  const Vector f = hn::Set(d, scale * log2_e);
  for (Index r = 0; r < rows; r += width) {
    const Vector before = hn::LoadU(d, space.largest + first + r);
    const Vector after = hn::Max(before, hn::Load(d, space.block_largest + r));
    const Vector shift = hn::Neg(hn::Mul(after, f));
    hn::Store(weight_of(hn::Add(hn::Mul(before, f), shift)), d, space.decay + r);  // 1 when nothing changes
    hn::Store(shift, d, space.shift + r);
    for (Index i = 0; i < std::min(width, rows - r); ++i) {
      space.largest[first + r + i] = std::max(space.largest[first + r + i], space.block_largest[r + i]);
    }
  }
}

/// Scores become weights (not yet divided by their sum), which are added to the row's 16 partial sums.
template <Mask mask>
HWY_INLINE void weigh(const ForwardSpace& space, Index first, Index rows, const Sight& sight, float scale) {
  const Tag d;
  const Vector f = hn::Set(d, scale * log2_e);
  for (Index r = 0; r < rows; ++r) {
    float* row = space.scores + r * score_stride;
    float* total = space.total + (first + r) * lanes;
    const Vector shift = hn::Set(d, space.shift[r]);
    const Index seen = mask == Mask::none ? key_block : sight.of(r), hidden = mask == Mask::both ? sight.hidden(r) : 0;
    Sixteen sum = Splat(0);
    Index j = 0;
    const auto weigh_some = [&]() HWY_ATTR {
      for (std::size_t v = 0; v < vector_count; ++v) {
        const Index at = j + static_cast<Index>(v) * width;
        Vector weight = weight_of(hn::MulAdd(hn::Load(d, row + at), f, shift));
        weight = hn::IfThenElseZero(seen_of<mask>(hidden, seen, at), weight);
        hn::Store(weight, d, row + at);
        sum.v[v] = hn::Add(sum.v[v], weight);
      }
    };
    if (mask == Mask::both) {
      for (; j < hidden; j += lanes) weigh_some();
    }
    for (; j + lanes <= seen; j += lanes) {
      for (std::size_t v = 0; v < vector_count; ++v) {
        float* at = row + j + static_cast<Index>(v) * width;
        const Vector weight = weight_of(hn::MulAdd(hn::Load(d, at), f, shift));
        hn::Store(weight, d, at);
        sum.v[v] = hn::Add(sum.v[v], weight);
      }
    }
    if (mask != Mask::none) {
      for (const Index end = computed(seen); j < end; j += lanes) weigh_some();
    }
    Store16(MulAdd(Load16(total), Splat(space.decay[r]), sum), total);
  }
}

template <Mask mask>
HWY_INLINE void weigh_masked(const ForwardSpace& space, Index first, Index rows, const Sight& sight, float scale) {
  block_maxima<mask>(space.scores, rows, sight, space.block_largest);
  advance_maxima(space, first, rows, scale);
  weigh<mask>(space, first, rows, sight, scale);
}

/// Multiplies weights by the mask's factors, after their sum was taken.
HWY_NOINLINE void drop_weights(const ForwardTask& task, float* scores, Index key, Index first, Index rows, const Sight& sight) {
  const MaskRow mask(task.dropout);
  HWY_ALIGN float factors[key_block];
  for (Index r = 0; r < rows; ++r) {
    float* row = scores + r * score_stride;
    mask.draw(task.dropout.head, task.first_key + task.position + first + r, task.first_key + key, factors);
    for (Index j = 0; j < computed(sight.of(r)); ++j) row[j] *= factors[j];
  }
}

/// sums = sums * decay + weights times values.
HWY_INLINE void value_product(const ForwardTask& task, const ForwardSpace& space, Index first, Index rows, const Sight& sight) {
  const Index stride = padded(task.head_size);
  for (Index i = 0; i < rows; i += tile_rows) {
    const Index in_tile = std::min(tile_rows, rows - i);
    const Index count = sight.of(i + in_tile - 1);
    for (Index c = 0; c < task.head_size; c += panel) {
      tile_of(in_tile, ScoreRows{space.scores + i * score_stride}, space.values + c * key_block, count,
              Decay{space.sums + (first + i) * stride + c, stride, space.decay + i});
    }
  }
}

/// Scores of a block of keys, from `key`, become weights of rows from `first`.
HWY_INLINE void weigh_block(const ForwardTask& task, const ForwardSpace& space, Index key, Index first, Index rows,
                            const Sight& sight) {
  if (sight.hidden(rows - 1) > 0) {
    weigh_masked<Mask::both>(space, first, rows, sight, task.scale);
  } else if (sight.whole()) {
    weigh_masked<Mask::none>(space, first, rows, sight, task.scale);
  } else {
    weigh_masked<Mask::end>(space, first, rows, sight, task.scale);
  }
  if (task.dropout.site != nullptr) drop_weights(task, space.scores, key, first, rows, sight);
}

/// What rows from `first` see of the block from `key`.
HWY_INLINE Sight sight_of(const ForwardTask& task, Index key, Index first) {
  return {.first = task.position + first + 1 - key,
          .keys = std::min(key_block, task.keys - key),
          .starts = task.starts == nullptr ? nullptr : task.starts + first,
          .position = task.first_key + key};
}

/// The first block that any of the rows sees.
HWY_INLINE Index first_block(const ForwardTask& task) {
  return task.starts == nullptr ? 0 : std::max<Index>(*task.starts - task.first_key, 0) / key_block * key_block;
}

/// One block of keys, from `key`, for `rows` <= 48 rows of q from `first`.
HWY_INLINE void block_of_rows(const ForwardTask& task, HeadRows q, const ForwardSpace& space, Index key, Index first,
                              Index rows) {
  const Sight sight = sight_of(task, key, first);
  if (sight.blind()) return;
  score_product(q.from(first), rows, sight, space.keys, task.head_size, space.scores);
  if (task.softcap > 0) cap_scores(rows, sight, task.softcap, space.scores);
  weigh_block(task, space, key, first, rows, sight);
  value_product(task, space, first, rows, sight);
}

/// Begins the softmax of `task.rows` queries, at nothing or at the result of other keys. That result counts as a weight of 1 at
/// the score lse.
HWY_INLINE void start(const ForwardTask& task, const ForwardSpace& space) {
  const Index stride = padded(task.head_size);
  std::fill(space.sums, space.sums + task.rows * stride, 0.0f);
  std::fill(space.total, space.total + task.rows * lanes, 0.0f);
  std::fill(space.largest, space.largest + row_capacity, lowest);
  if (!task.further) return;
  for (Index r = 0; r < task.rows; ++r) {
    std::copy_n(reinterpret_cast<const float*>(task.o.from(r).data), task.head_size, space.sums + r * stride);
    space.total[r * lanes] = 1;
    space.largest[r] = task.lse[r] / task.scale;
  }
}

/// Divides by the sums, and stores o and lse.
HWY_INLINE void finish(const ForwardTask& task, const ForwardSpace& space) {
  const Tag d;
  const Index stride = padded(task.head_size);
  float* totals = space.scores;  // no longer needed
  for (Index r = 0; r < task.rows; ++r) totals[r] = Sum(Load16(space.total + r * lanes));
  float* inverses = totals + row_capacity;
  float* logs = inverses + row_capacity;
  for (Index r = 0; r < task.rows; r += width) {
    const Vector total = hn::Load(d, totals + r);
    hn::Store(hn::Div(hn::Set(d, 1.0f), total), d, inverses + r);
    hn::Store(hn::Log(d, total), d, logs + r);
  }
  for (Index r = 0; r < task.rows; ++r) {
    const float* sums = space.sums + r * stride;
    const Sixteen inverse = Splat(inverses[r]);
    store_row(task.o.from(r), task.head_size, [&](Index c) HWY_ATTR { return Mul(Load16(sums + c), inverse); });
    if (task.lse != nullptr) task.lse[r] = space.largest[r] * task.scale + logs[r];
  }
}

/// sums = sums * decay + weights times values, of one query.
template <class T>
HWY_INLINE void values_in_place(const ForwardTask& task, const ForwardSpace& space, Index key, Index count) {
  const StoredRows rows = task.at(task.v, key);
  const auto* values = reinterpret_cast<const T*>(rows.data);
  ForColumns(task.head_size, [&](Index c, auto group) HWY_ATTR {
    Sixteen sum = Splat(0);
    for (Index j = 0; j < count; ++j) sum = MulAdd(Splat(space.scores[j]), group.Load(values + j * rows.stride + c), sum);
    Store16(MulAdd(Load16(space.sums + c), Splat(space.decay[0]), sum), space.sums + c);
  });
}

/// One query (generating text) reads keys and values where they lie: packing a block costs more than its two products. The
/// additions are those of the packed block.
void one_query(const ForwardTask& task, HeadRows q, const ForwardSpace& space) {
  const Index keys = std::min(task.position + 1, task.keys);
  const Index begin = first_block(task);
  prefetch_rows(task.at(task.k, begin), std::min(key_block, keys - begin), task.head_size);
  for (Index key = begin; key < keys; key += key_block) {
    const Index in_block = std::min(key_block, keys - key);
    prefetch_rows(task.at(task.v, key), in_block, task.head_size);
    for (Index j = 0; j < in_block; j += ThinStep::panel) {
      const StoredRows rows = task.at(task.k, key + j);
      const Index count = std::min(ThinStep::panel, in_block - j);
      const Index next = key + j + count < keys ? count * rows.stride : 0;
      task.thin({q.data, q.stride, 1, rows.data, rows.stride, count, task.head_size, space.scores + j, rows.type, next});
    }
    const Sight sight = sight_of(task, key, 0);
    if (task.softcap > 0) cap_scores(1, sight, task.softcap, space.scores);
    weigh_block(task, space, key, 0, 1, sight);
    WithStorage(task.v.type, [&](auto zero) HWY_ATTR { values_in_place<decltype(zero)>(task, space, key, in_block); });
  }
}

void attention_forward(const ForwardTask& task, float* workspace) {
  const Index keys = std::min(task.position + task.rows, task.keys), begin = first_block(task);
  if (begin >= keys) return;  // the result of other keys is that of all
  const ForwardSpace space(workspace);
  start(task, space);
  const HeadRows q = widened(task.q, task.rows, task.head_size, space.queries);
  if (task.rows == 1) {
    one_query(task, q, space);
    return finish(task, space);
  }
  for (Index key = begin; key < keys; key += key_block) {
    const Index in_block = std::min(key_block, keys - key);
    pack_transposed(widened(task.at(task.k, key), in_block, task.head_size, space.staged), in_block, task.head_size, space.keys);
    pack_panels(widened(task.at(task.v, key), in_block, task.head_size, space.staged), in_block, task.head_size, space.values);
    const Index next = key + key_block, in_next = std::min(key_block, keys - next);
    if (in_next > 0) {
      prefetch_rows(task.at(task.k, next), in_next, task.head_size);
      prefetch_rows(task.at(task.v, next), in_next, task.head_size);
    }
    for (Index first = std::max<Index>(0, key - task.position); first < task.rows; first += forward_sub_rows) {
      block_of_rows(task, q, space, key, first, std::min(forward_sub_rows, task.rows - first));
    }
  }
  finish(task, space);
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
HWY_EXPORT(attention_forward);
ForwardKernel attention_forward_kernel() { return &HWY_DYNAMIC_DISPATCH(attention_forward); }
}  // namespace lockstep::ops::cpu
#endif  // HWY_ONCE
