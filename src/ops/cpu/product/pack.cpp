#include "ops/cpu/product/pack.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/checked.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/product/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/product/pack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/product/transpose-inl.h"
#include "ops/cpu/simd/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

// As many cache lines as `columns` elements have at the least.
template <std::int64_t columns, class T>
HWY_INLINE void PrefetchLines(const T* from) {
  constexpr std::int64_t line = 64 / sizeof(T);
  for (std::int64_t i = 0; i < std::max(columns, line); i += line) __builtin_prefetch(from + i);
}

// What is packed: floats, of f32 or of bf16 that is widened, or words of two bf16. Words of a row of k, column by column:
template <class T>
struct RowOfFloats {
  using Element = T;
  static constexpr std::int64_t depth = 1;  // k in a word
  const T* row;
  RowOfFloats(const T* from, std::int64_t, std::int64_t) : row(from) {}
  template <std::int64_t columns>
  HWY_INLINE void prefetch(std::int64_t ahead) const {
    PrefetchLines<columns>(row + ahead);
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V load(D d, std::int64_t column) const {
    return LoadAs(d, row + column);
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V load_part(D d, std::int64_t column, std::int64_t columns) const {
    return LoadPart(d, row + column, columns);
  }
  float word(std::int64_t column) const { return Widened(row[column]); }
};

// An odd K ends with zeros; no panel has more columns.
constexpr BFloat16 zeros[32] = {};

struct RowOfPairs {
  using Element = BFloat16;
  static constexpr std::int64_t depth = 2;
  const BFloat16 *row, *next;
  RowOfPairs(const BFloat16* from, std::int64_t stride, std::int64_t rows) : row(from), next(rows > 1 ? from + stride : zeros) {}
  template <std::int64_t columns>
  HWY_INLINE void prefetch(std::int64_t ahead) const {
    PrefetchLines<columns>(row + ahead);
    PrefetchLines<columns>(next + ahead);
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V load(D d, std::int64_t column) const {
    return LoadPairs(d, row + column, next + column);
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V load_part(D d, std::int64_t column, std::int64_t columns) const {
    BFloat16 part[2][16] = {};
    std::copy_n(row + column, columns, part[0]);
    std::copy_n(next + column, columns, part[1]);
    return LoadPairs(d, part[0], part[1]);
  }
  float word(std::int64_t column) const { return WordOf(row[column], next[column]); }
};

// `panel` words of one row of k. A panel that is no multiple of a vector spills into the next k's place, which is written
// afterwards. The last k of a block and the end of a row are copied word by word, so that they do not spill.
template <std::int64_t panel, class Row>
HWY_INLINE void CopyRow(const Row& row, std::int64_t columns, bool may_spill, float* to) {
  const hn::CappedTag<float, 16> d;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 16>());
  if (columns >= round_up(panel, lanes) && (may_spill || panel % lanes == 0)) {
    HWY_UNROLL(8)
    for (std::int64_t i = 0; i < panel; i += lanes) hn::StoreU(row.load(d, i), d, to + i);
  } else if (HWY_MEM_OPS_MIGHT_FAULT == 0 && (may_spill || panel % lanes == 0)) {
    HWY_UNROLL(8)
    for (std::int64_t i = 0; i < panel; i += lanes)
      hn::StoreU(row.load_part(d, i, std::clamp<std::int64_t>(columns - i, 0, lanes)), d, to + i);
  } else {
    for (std::int64_t i = 0; i < panel; ++i) to[i] = i < columns ? row.word(i) : 0.0F;
  }
}

// Eight rows at a time: panels of one row lie at multiples of a large power of two apart, which the cache likes little.
template <std::int64_t panel, class Row>
void PackStraightOf(const PackSource& source, float* to) {
  constexpr std::int64_t group = 8, depth = Row::depth;
  const auto* elements = static_cast<const typename Row::Element*>(source.from);
  const std::int64_t width = round_up(source.columns, panel);
  for (std::int64_t block = 0; block < source.k; block += k_block) {
    const std::int64_t kc = std::min(k_block, source.k - block), words = div_up(kc, depth);
    for (std::int64_t first = 0; first < kc; first += group) {
      const std::int64_t end = std::min(kc, first + group);
      for (std::int64_t column = 0; column < source.columns; column += panel) {
        const auto* from = elements + (block + first) * source.stride + column;
        float* target = to + block / depth * width + column * words + first / depth * panel;
        for (std::int64_t k = first; k < end; k += depth, from += depth * source.stride, target += panel) {
          const Row row(from, source.stride, end - k);
          row.template prefetch<panel>(group * source.stride);
          CopyRow<panel>(row, source.columns - column, k + depth < kc, target);
        }
      }
    }
  }
}

template <class Row>
void PackStraightAs(const PackSource& source, std::int64_t panel, float* to) {
  switch (panel) {
    case 6:
      return PackStraightOf<6, Row>(source, to);
    case 14:
      return PackStraightOf<14, Row>(source, to);
    case 16:
      return PackStraightOf<16, Row>(source, to);
    default:
      return PackStraightOf<32, Row>(source, to);
  }
}

void PackStraight(const PackSource& source, std::int64_t panel, float* to) {
  return source.type == DType::bf16 ? PackStraightAs<RowOfFloats<BFloat16>>(source, panel, to)
                                    : PackStraightAs<RowOfFloats<float>>(source, panel, to);
}

void PairStraight(const PackSource& source, std::int64_t panel, float* to) {
  return panel == 14 ? PackStraightOf<14, RowOfPairs>(source, to) : PackStraightOf<32, RowOfPairs>(source, to);
}

// Consecutive k, as many as four words have, of as many columns as a vector has lanes.
template <class Row, class D, class V = hn::Vec<D>>
HWY_INLINE void StoreFour(D d, const V* words, float* to, std::int64_t panel) {
  using T = typename Row::Element;
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    if constexpr (Row::depth == word_depth<T> / 4) {
      hn::StoreU(words[i], d, to + i * panel);
    } else {
      hn::StoreU(ElementOf<T, 0>(d, words[i]), d, to + 2 * i * panel);
      hn::StoreU(ElementOf<T, 1>(d, words[i]), d, to + (2 * i + 1) * panel);
    }
  }
}

// `count` columns (at most a vector) of one panel, all k. Columns that are missing repeat the last one.
template <class Row, class D>
HWY_INLINE void PackColumns(D d, const PackSource& source, std::int64_t column, std::int64_t panel, std::int64_t width,
                            float* to) {
  using T = typename Row::Element;
  constexpr std::int64_t lanes = hn::MaxLanes(D());
  constexpr std::int64_t depth = word_depth<T>, line = 64 / sizeof(T);
  const T* rows[lanes];
  for (std::int64_t i = 0; i < lanes; ++i)
    rows[i] = static_cast<const T*>(source.from) + std::min(column + i, source.columns - 1) * source.stride + source.first;
  const std::int64_t p = column / panel, inside = column % panel;
  for (std::int64_t block = 0; block < source.k; block += k_block) {
    const std::int64_t kc = std::min(k_block, source.k - block), words = div_up(kc, Row::depth);
    float* target = to + block / Row::depth * width + p * words * panel + inside;
    std::int64_t k = 0;
    for (; k + depth <= kc; k += depth) {
      // What the next columns will need, a whole pass ahead.
      if (k % line == 0)
        for (std::int64_t i = 0; i < lanes; ++i) __builtin_prefetch(rows[i] + lanes * source.stride + block + k);
      hn::Vec<D> four[4];
      LoadFourWords(d, rows, block + k, four);
      StoreFour<Row>(d, four, target + k / Row::depth * panel, panel);
    }
    for (; k < kc; k += Row::depth)
      for (std::int64_t i = 0; i < lanes; ++i) target[k / Row::depth * panel + i] = Row(rows[i] + block + k, 1, kc - k).word(0);
  }
}

// The same of columns of a tile.
template <class Row, class D>
HWY_INLINE void PackTile(D d, const PackSource& source, std::int64_t column, std::int64_t panel, std::int64_t width, float* to) {
  using T = typename Row::Element;
  constexpr std::int64_t depth = word_depth<T>;
  const std::int64_t inside_tile = column % tile_columns, p = column / panel;
  const T* tile = static_cast<const T*>(source.from) + (column - inside_tile) * source.stride + source.first * tile_columns;
  for (std::int64_t block = 0; block < source.k; block += k_block) {
    const std::int64_t kc = std::min(k_block, source.k - block), words = div_up(kc, Row::depth);
    const float* from = reinterpret_cast<const float*>(tile + block * tile_columns) + inside_tile;
    float* target = to + block / Row::depth * width + p * words * panel + column % panel;
    for (std::int64_t k = 0; k < kc; k += depth, from += 4 * tile_columns) {
      hn::Vec<D> four[4];
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) four[i] = hn::LoadU(d, from + i * tile_columns);
      StoreFour<Row>(d, four, target + k / Row::depth * panel, panel);
    }
  }
}

template <class Row>
void PackTransposedAs(const PackSource& source, std::int64_t panel, float* to) {
  const hn::CappedTag<float, 8> narrow;  // a tile's columns, or half of them
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)), narrow_lanes = static_cast<std::int64_t>(hn::Lanes(narrow));
  const std::int64_t width = round_up(source.columns, panel);
  std::int64_t column = 0;
  for (; column < source.tiled; column += narrow_lanes) PackTile<Row>(narrow, source, column, panel, width, to);
  for (; column % lanes != 0; column += narrow_lanes) PackColumns<Row>(narrow, source, column, panel, width, to);
  for (; column < width; column += lanes) PackColumns<Row>(d, source, column, panel, width, to);
}

void PackTransposed(const PackSource& source, std::int64_t panel, float* to) {
  return source.type == DType::bf16 ? PackTransposedAs<RowOfFloats<BFloat16>>(source, panel, to)
                                    : PackTransposedAs<RowOfFloats<float>>(source, panel, to);
}

void PairTransposed(const PackSource& source, std::int64_t panel, float* to) { PackTransposedAs<RowOfPairs>(source, panel, to); }

// Squares of sixteen words of as many columns as a vector has lanes are turned.
void PairTurned(const PackSource& source, std::int64_t to_stride, float* to) {
  const hn::CappedTag<float, 16> d;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 16>());
  const auto* elements = static_cast<const BFloat16*>(source.from);
  const std::int64_t words = div_up(source.k, 2);
  for (std::int64_t word = 0; word < words; word += lanes) {
    const std::int64_t count = std::min(lanes, words - word);
    for (std::int64_t column = 0; column < source.columns; column += lanes) {
      HWY_ALIGN float square[lanes][lanes];
      const float* rows[lanes];
      for (std::int64_t w = 0; w < lanes; ++w) rows[w] = square[w];
      for (std::int64_t w = 0; w < count; ++w) {
        const std::int64_t k = 2 * (word + w);
        CopyRow<lanes>(RowOfPairs(elements + k * source.stride + column, source.stride, source.k - k), source.columns - column,
                       false, square[w]);
      }
      for (std::int64_t c = 0; c < std::min(lanes, source.columns - column); c += 4) {
        hn::Vec<decltype(d)> four[4];
        LoadFourWords(d, rows, c, four);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(4, source.columns - column - c); ++i)
          hn::StoreU(four[i], d, to + (column + c + i) * to_stride + word);
      }
    }
  }
}

template <class T>
void CopyRowsAs(const PackSource& source, std::int64_t to_stride, float* to) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* from = static_cast<const T*>(source.from);
  for (std::int64_t k = 0; k < source.k; ++k, from += source.stride, to += to_stride) {
    std::int64_t i = 0;
    for (; i + lanes <= source.columns; i += lanes) hn::StoreU(LoadAs(d, from + i), d, to + i);
    for (; i < source.columns; ++i) to[i] = Widened(from[i]);
  }
}

void CopyRows(const PackSource& source, std::int64_t to_stride, float* to) {
  return source.type == DType::bf16 ? CopyRowsAs<BFloat16>(source, to_stride, to) : CopyRowsAs<float>(source, to_stride, to);
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(PackStraight);
HWY_EXPORT(PackTransposed);
HWY_EXPORT(CopyRows);
HWY_EXPORT(PairStraight);
HWY_EXPORT(PairTransposed);
HWY_EXPORT(PairTurned);

// Pairs lie in a row as they are needed.
void copy_pairs(const PackSource& source, std::int64_t to_stride, float* to) {
  const auto* from = static_cast<const BFloat16*>(source.from);
  const BFloat16 zero{};
  const std::size_t bytes = static_cast<std::size_t>(source.columns) * sizeof(BFloat16);
  for (std::int64_t k = 0; k < source.k; ++k, from += source.stride, to += to_stride) {
    std::memcpy(to, from, bytes);
    if (source.columns % 2 != 0) std::memcpy(reinterpret_cast<std::byte*>(to) + bytes, &zero, sizeof(zero));
  }
}

}  // namespace

Packing packing_for(Isa isa) {
  const ScopedIsa scope(isa);
  return {.straight = &HWY_DYNAMIC_DISPATCH(PackStraight),
          .transposed = &HWY_DYNAMIC_DISPATCH(PackTransposed),
          .rows = &HWY_DYNAMIC_DISPATCH(CopyRows)};
}

Packing bf16_packing_for(Isa isa) {
  const ScopedIsa scope(isa);
  return {.straight = &HWY_DYNAMIC_DISPATCH(PairStraight),
          .transposed = &HWY_DYNAMIC_DISPATCH(PairTransposed),
          .rows = &copy_pairs,
          .turned = &HWY_DYNAMIC_DISPATCH(PairTurned)};
}

}  // namespace lockstep::ops::cpu
#endif
