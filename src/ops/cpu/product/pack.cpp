#include "ops/cpu/product/pack.h"

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "ops/cpu/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/product/pack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/product/transpose-inl.h"
#include "ops/cpu/simd/storage-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

// `columns` < 8 elements, the others zero.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadPart(D d, const float* from, std::int64_t columns) {
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(columns)), d, from);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadPart(D d, const BFloat16* from, std::int64_t columns) {
  BFloat16 part[8] = {};
  std::copy_n(from, columns, part);
  return LoadAs(d, part);
}

// `panel` floats of one row of k. A panel that is no multiple of a vector spills into the next k's place, which is written
// afterwards; the last k of a block, and the end of a row, go one by one.
template <std::int64_t panel, class T>
HWY_INLINE void CopyRow(const T* from, std::int64_t columns, bool may_spill, float* to) {
  const hn::CappedTag<float, 8> d;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 8>());
  if (columns >= round_up(panel, lanes) && (may_spill || panel % lanes == 0)) {
    HWY_UNROLL(8)
    for (std::int64_t i = 0; i < panel; i += lanes) hn::StoreU(LoadAs(d, from + i), d, to + i);
  } else if (HWY_MEM_OPS_MIGHT_FAULT == 0 && (may_spill || panel % lanes == 0)) {
    HWY_UNROLL(8)
    for (std::int64_t i = 0; i < panel; i += lanes)
      hn::StoreU(LoadPart(d, from + i, std::clamp<std::int64_t>(columns - i, 0, lanes)), d, to + i);
  } else {
    for (std::int64_t i = 0; i < panel; ++i) to[i] = i < columns ? Widened(from[i]) : 0.0F;
  }
}

// Eight rows at a time: panels of one row lie at multiples of a large power of two apart, which the cache likes little.
template <std::int64_t panel, class T>
void PackStraightOf(const PackSource& source, float* to) {
  constexpr std::int64_t group = 8;
  const auto* elements = static_cast<const T*>(source.from);
  const std::int64_t width = round_up(source.columns, panel);
  for (std::int64_t block = 0; block < source.k; block += k_block) {
    const std::int64_t kc = std::min(k_block, source.k - block);
    for (std::int64_t first = 0; first < kc; first += group) {
      const std::int64_t end = std::min(kc, first + group);
      for (std::int64_t column = 0; column < source.columns; column += panel) {
        const T* from = elements + (block + first) * source.stride + column;
        float* target = to + block * width + column * kc + first * panel;
        for (std::int64_t k = first; k < end; ++k, from += source.stride, target += panel) {
          __builtin_prefetch(from + group * source.stride);
          CopyRow<panel>(from, source.columns - column, k + 1 < kc, target);
        }
      }
    }
  }
}

template <class T>
void PackStraightAs(const PackSource& source, std::int64_t panel, float* to) {
  switch (panel) {
    case 6:
      return PackStraightOf<6, T>(source, to);
    case 14:
      return PackStraightOf<14, T>(source, to);
    case 16:
      return PackStraightOf<16, T>(source, to);
    default:
      return PackStraightOf<32, T>(source, to);
  }
}

void PackStraight(const PackSource& source, std::int64_t panel, float* to) {
  return source.type == DType::bf16 ? PackStraightAs<BFloat16>(source, panel, to) : PackStraightAs<float>(source, panel, to);
}

// Consecutive k, as many as four words have, of as many columns as a vector has lanes.
template <class T, class D, class V = hn::Vec<D>>
HWY_INLINE void TransposeFour(D d, const T* const* rows, std::int64_t k, float* to, std::int64_t panel) {
  V words[4];
  LoadFourWords(d, rows, k, words);
  constexpr int each = word_depth<T> / 4;
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    hn::StoreU(ElementOf<T, 0>(d, words[i]), d, to + each * i * panel);
    if constexpr (each == 2) hn::StoreU(ElementOf<T, 1>(d, words[i]), d, to + (2 * i + 1) * panel);
  }
}

// `count` columns (at most a vector) of one panel, all k. Columns that are missing repeat the last one.
template <class T, class D>
HWY_INLINE void PackColumns(D d, const PackSource& source, std::int64_t column, std::int64_t panel, std::int64_t width,
                            float* to) {
  constexpr std::int64_t lanes = hn::MaxLanes(D());
  constexpr std::int64_t depth = word_depth<T>, line = 64 / sizeof(T);
  const T* rows[lanes];
  for (std::int64_t i = 0; i < lanes; ++i)
    rows[i] = static_cast<const T*>(source.from) + std::min(column + i, source.columns - 1) * source.stride;
  const std::int64_t p = column / panel, inside = column % panel;
  for (std::int64_t block = 0; block < source.k; block += k_block) {
    const std::int64_t kc = std::min(k_block, source.k - block);
    float* target = to + block * width + p * kc * panel + inside;
    std::int64_t k = 0;
    for (; k + depth <= kc; k += depth) {
      // What the next columns will need, a whole pass ahead.
      if (k % line == 0)
        for (std::int64_t i = 0; i < lanes; ++i) __builtin_prefetch(rows[i] + lanes * source.stride + block + k);
      TransposeFour<T>(d, rows, block + k, target + k * panel, panel);
    }
    for (; k < kc; ++k)
      for (std::int64_t i = 0; i < lanes; ++i) target[k * panel + i] = Widened(rows[i][block + k]);
  }
}

template <class T>
void PackTransposedAs(const PackSource& source, std::int64_t panel, float* to) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = round_up(source.columns, panel);
  for (std::int64_t column = 0; column < width; column += lanes) PackColumns<T>(d, source, column, panel, width, to);
}

void PackTransposed(const PackSource& source, std::int64_t panel, float* to) {
  return source.type == DType::bf16 ? PackTransposedAs<BFloat16>(source, panel, to) : PackTransposedAs<float>(source, panel, to);
}

void Widen(const PackSource& source, std::int64_t to_stride, float* to) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* from = static_cast<const BFloat16*>(source.from);
  for (std::int64_t k = 0; k < source.k; ++k, from += source.stride, to += to_stride) {
    std::int64_t i = 0;
    for (; i + lanes <= source.columns; i += lanes) hn::StoreU(LoadAs(d, from + i), d, to + i);
    for (; i < source.columns; ++i) to[i] = Widened(from[i]);
  }
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(PackStraight);
HWY_EXPORT(PackTransposed);
HWY_EXPORT(Widen);
}  // namespace

Packing packing_for(Isa isa) {
  const ScopedIsa scope(isa);
  return {.straight = &HWY_DYNAMIC_DISPATCH(PackStraight),
          .transposed = &HWY_DYNAMIC_DISPATCH(PackTransposed),
          .widened = &HWY_DYNAMIC_DISPATCH(Widen)};
}

}  // namespace lockstep::ops::cpu
#endif
