// The products inside attention, tiles of 6 rows x 2 vectors, and their way from and to a caller's rows. Included once per
// Highway target (so it has no include guard) after lanes-inl.h.

#include <cmath>
#include <cstdint>

#include "ops/cpu/attention/task.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Tag>;
using Index = std::int64_t;

constexpr Index width = hn::MaxLanes(Tag());  // elements of a vector
constexpr Index panel = 2 * width;            // columns of a packed panel
constexpr Index tile_rows = 6;

/// 2^x for x <= 0; 2^-126 below that. NaN stays NaN.
HWY_INLINE Vector weight_of(Vector x) { return PowerOfTwo(Tag(), hn::Max(hn::Set(Tag(), -126.0F), x)); }

/// The left factor of a product: element (i, k) is row(i)[k * step].
struct StridedRows {
  static constexpr Index step = 1;
  const float* data;
  Index stride;
  HWY_INLINE const float* row(Index i) const { return data + i * stride; }
};
struct ScoreRows {
  static constexpr Index step = 1;
  const float* data;
  HWY_INLINE const float* row(Index i) const { return data + i * score_stride; }
};
struct ScoreColumns {
  static constexpr Index step = score_stride;
  const float* data;
  HWY_INLINE const float* row(Index i) const { return data + i; }
};

/// Stores a tile's rows as they are; `out` is the tile's first element.
struct StoreScores {
  float* out;
  HWY_INLINE void put(Index i, Vector left, Vector right) const {
    const Tag d;
    hn::Store(left, d, out + i * score_stride);
    hn::Store(right, d, out + i * score_stride + width);
  }
};
/// out = out * factor[row] + tile.
struct Decay {
  float* out;
  Index stride;
  const float* factor;
  HWY_INLINE void put(Index i, Vector left, Vector right) const {
    const Tag d;
    float* at = out + i * stride;
    const Vector f = hn::Set(d, factor[i]);
    hn::Store(hn::MulAdd(hn::Load(d, at), f, left), d, at);
    hn::Store(hn::MulAdd(hn::Load(d, at + width), f, right), d, at + width);
  }
};
/// out = tile * scale + out.
struct Accumulate {
  float* out;
  Index stride;
  float scale;
  HWY_INLINE void put(Index i, Vector left, Vector right) const {
    const Tag d;
    float* at = out + i * stride;
    const Vector f = hn::Set(d, scale);
    hn::Store(hn::MulAdd(left, f, hn::Load(d, at)), d, at);
    hn::Store(hn::MulAdd(right, f, hn::Load(d, at + width)), d, at + width);
  }
};

/// One tile: `rows` rows of `left` times a packed panel, one fma chain of `count` terms an element. Twelve named sums, so
/// that they stay in registers.
template <int rows, class Left, class Sink>
HWY_INLINE void tile(const Left& left, const float* HWY_RESTRICT right, Index count, const Sink& sink) {
  const Tag d;
  const float* a0 = left.row(0);
  const float* a1 = left.row(rows > 1 ? 1 : 0);
  const float* a2 = left.row(rows > 2 ? 2 : 0);
  const float* a3 = left.row(rows > 3 ? 3 : 0);
  const float* a4 = left.row(rows > 4 ? 4 : 0);
  const float* a5 = left.row(rows > 5 ? 5 : 0);
  Vector s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00;
  Vector s30 = s00, s31 = s00, s40 = s00, s41 = s00, s50 = s00, s51 = s00;
  for (Index k = 0; k < count; ++k) {
    const Index at = k * Left::step;
    const Vector b0 = hn::Load(d, right + k * panel), b1 = hn::Load(d, right + k * panel + width);
    const auto add = [&](const float* a, Vector& x, Vector& y) HWY_ATTR {
      const Vector f = hn::Set(d, a[at]);
      x = hn::MulAdd(f, b0, x);
      y = hn::MulAdd(f, b1, y);
    };
    add(a0, s00, s01);
    if constexpr (rows > 1) add(a1, s10, s11);
    if constexpr (rows > 2) add(a2, s20, s21);
    if constexpr (rows > 3) add(a3, s30, s31);
    if constexpr (rows > 4) add(a4, s40, s41);
    if constexpr (rows > 5) add(a5, s50, s51);
  }
  sink.put(0, s00, s01);
  if constexpr (rows > 1) sink.put(1, s10, s11);
  if constexpr (rows > 2) sink.put(2, s20, s21);
  if constexpr (rows > 3) sink.put(3, s30, s31);
  if constexpr (rows > 4) sink.put(4, s40, s41);
  if constexpr (rows > 5) sink.put(5, s50, s51);
}

template <class Left, class Sink>
HWY_INLINE void tile_of(Index rows, const Left& left, const float* HWY_RESTRICT right, Index count, const Sink& sink) {
  switch (rows) {
    case 1:
      return tile<1>(left, right, count, sink);
    case 2:
      return tile<2>(left, right, count, sink);
    case 3:
      return tile<3>(left, right, count, sink);
    case 4:
      return tile<4>(left, right, count, sink);
    case 5:
      return tile<5>(left, right, count, sink);
    default:
      return tile<6>(left, right, count, sink);
  }
}

/// Which keys of a block rows see. Each row sees one key more than the row before, as far as the block has keys. It sees none
/// before its document.
struct Sight {
  Index first;                           ///< keys that row 0 would see if the block had no end
  Index keys;                            ///< of the block, up to 64
  const std::int32_t* starts = nullptr;  ///< of the rows' documents; nullptr: rows see all keys from the first on
  Index position = 0;                    ///< of the block's first key, as starts count
  HWY_INLINE Index of(Index row) const { return std::clamp<Index>(first + row, 0, keys); }
  /// Rows before the first that sees key `key`.
  HWY_INLINE Index rows_before(Index key, Index rows) const { return std::clamp<Index>(key + 1 - first, 0, rows); }
  /// Keys at the block's beginning that a row does not see; not fewer than the row before it.
  HWY_INLINE Index hidden(Index row) const { return starts == nullptr ? 0 : std::clamp<Index>(starts[row] - position, 0, keys); }
  /// No row sees a key.
  HWY_INLINE bool blind() const { return hidden(0) == keys; }
  /// Every row sees all 64 keys of the block.
  HWY_INLINE bool whole() const { return first >= key_block && keys == key_block; }
};

/// scores [rows, 64] = a [rows, count] times the packed transpose of a block of keys (or values). Scores that no row of a tile
/// sees are left as they were.
inline void score_product(HeadRows a, Index rows, const Sight& sight, const float* panels, Index count, float* scores) {
  for (Index i = 0; i < rows; i += tile_rows) {
    const Index in_tile = std::min(tile_rows, rows - i);
    const Index columns = sight.of(i + in_tile - 1);
    for (Index j = 0; j < columns; j += panel) {
      tile_of(in_tile, StridedRows{a.data + i * a.stride, a.stride}, panels + j * count, count,
              StoreScores{scores + i * score_stride + j});
    }
  }
}

/// What score_product() made becomes cap tanh(score / cap).
inline void cap_scores(Index rows, const Sight& sight, float cap, float* scores) {
  const Tag d;
  const Vector factor = hn::Set(d, cap), part = hn::Set(d, 1 / cap);
  for (Index r = 0; r < rows; ++r) {
    float* row = scores + r * score_stride;
    const Index columns = sight.of(std::min(r / tile_rows * tile_rows + tile_rows, rows) - 1);
    for (Index j = 0; j < columns; j += width)
      hn::Store(hn::Mul(cpu::HWY_NAMESPACE::Tanh(d, hn::Mul(hn::Load(d, row + j), part)), factor), d, row + j);
  }
}

/// Packs the transpose of `rows` <= 64 rows of `columns` elements in panels of `panel` rows. Element (r, c) of the first panel
/// goes to to[c * panel + r]. Rows that are missing of 64 become 0.
inline void pack_transposed(HeadRows from, Index rows, Index columns, float* to) {
  const hn::CappedTag<float, 4> d4;
  const hn::RepartitionToWide<decltype(d4)> d2;
  if (rows < key_block) std::fill(to, to + key_block * columns, 0.0f);
  for (Index r = 0; r < rows; r += 4) {
    const float* a = from.data + r * from.stride;
    float* out = to + r / panel * panel * columns + r % panel;
    Index c = 0;
    for (; r + 4 <= rows && c + 4 <= columns; c += 4) {
      const auto x0 = hn::LoadU(d4, a + c), x1 = hn::LoadU(d4, a + from.stride + c);
      const auto x2 = hn::LoadU(d4, a + 2 * from.stride + c), x3 = hn::LoadU(d4, a + 3 * from.stride + c);
      const auto l01 = hn::BitCast(d2, hn::InterleaveLower(d4, x0, x1)), h01 = hn::BitCast(d2, hn::InterleaveUpper(d4, x0, x1));
      const auto l23 = hn::BitCast(d2, hn::InterleaveLower(d4, x2, x3)), h23 = hn::BitCast(d2, hn::InterleaveUpper(d4, x2, x3));
      hn::Store(hn::BitCast(d4, hn::InterleaveLower(d2, l01, l23)), d4, out + c * panel);
      hn::Store(hn::BitCast(d4, hn::InterleaveUpper(d2, l01, l23)), d4, out + (c + 1) * panel);
      hn::Store(hn::BitCast(d4, hn::InterleaveLower(d2, h01, h23)), d4, out + (c + 2) * panel);
      hn::Store(hn::BitCast(d4, hn::InterleaveUpper(d2, h01, h23)), d4, out + (c + 3) * panel);
    }
    for (; c < columns; ++c) {
      for (Index i = 0; i < std::min<Index>(4, rows - r); ++i) out[c * panel + i] = a[i * from.stride + c];
    }
  }
}

/// Packs `rows` rows of `columns` elements in panels of `panel` columns, each [64, panel]. Columns that a panel lacks become 0.
inline void pack_panels(HeadRows from, Index rows, Index columns, float* to) {
  const Tag d;
  for (Index c = 0; c < columns; c += panel) {
    float* out = to + c * key_block;
    const float* in = from.data + c;
    if (c + panel <= columns) {
      for (Index r = 0; r < rows; ++r, out += panel, in += from.stride) {
        const Vector x = hn::LoadU(d, in), y = hn::LoadU(d, in + width);
        hn::Store(x, d, out);
        hn::Store(y, d, out + width);
      }
    } else {
      for (Index r = 0; r < rows; ++r, out += panel, in += from.stride) {
        for (Index i = 0; i < panel; ++i) out[i] = c + i < columns ? in[i] : 0.0f;
      }
    }
  }
}

/// A caller's rows as floats: where they lie or, if they are bf16, widened to `aside`.
inline HeadRows widened(StoredRows from, Index rows, Index columns, float* aside) {
  if (from.type == DType::f32) return {reinterpret_cast<float*>(from.data), from.stride};
  const Index stride = padded(columns);
  for (Index r = 0; r < rows; ++r) {
    const auto* in = reinterpret_cast<const BFloat16*>(from.data) + r * from.stride;
    float* out = aside + r * stride;
    ForColumns(columns, [&](Index c, auto group) HWY_ATTR { Store16(group.Load(in + c), out + c); });
  }
  return {aside, stride};
}

/// Stores row[c] = value_at(c) + 0, sixteen elements at a time, past the caches where `stream`.
template <class Value>
HWY_INLINE void store_row(StoredRows row, Index columns, const Value& value_at, bool stream = false) {
  WithStorage(row.type, [&](auto zero) HWY_ATTR {
    auto* out = reinterpret_cast<decltype(zero)*>(row.data);
    ForColumns(columns, [&](Index c, auto group) HWY_ATTR { group.Store(Add(value_at(c), Splat(0)), out + c, stream); });
  });
}

/// Prefetches rows that will be packed soon. They lie too far apart for the processor to foresee.
HWY_INLINE void prefetch_rows(StoredRows from, Index rows, Index columns) {
  for (Index r = 0; r < rows; ++r) {
    const std::byte* row = from.from(r).data;
    for (Index b = 0; b < from.bytes(columns); b += 64) hwy::Prefetch(row + b);
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
