#include "ops/cpu/pack.h"

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "ops/cpu/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/pack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

// One row of k into its place in every panel. Rows lie far apart, so the line eight rows ahead is asked for early.
HWY_INLINE void SpreadRow(const float* from, std::int64_t columns, std::int64_t panel, std::int64_t panel_stride, float* to) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t column = 0;
  for (; column + panel <= columns; column += panel, to += panel_stride) {
    std::int64_t i = 0;
    for (; i + lanes <= panel; i += lanes) hn::StoreU(hn::LoadU(d, from + column + i), d, to + i);
    for (; i < panel; ++i) to[i] = from[column + i];
  }
  for (std::int64_t i = 0; column < columns && i < panel; ++i) to[i] = column + i < columns ? from[column + i] : 0.0F;
}

void PackStraight(const PackSource& source, std::int64_t panel, float* to) {
  constexpr std::int64_t ahead = 8;
  const std::int64_t width = round_up(source.columns, panel);
  for (std::int64_t block = 0; block < source.k; block += k_block) {
    const std::int64_t kc = std::min(k_block, source.k - block);
    for (std::int64_t k = 0; k < kc; ++k) {
      const float* from = source.from + (block + k) * source.stride;
      if (block + k + ahead < source.k)
        for (std::int64_t i = 0; i < source.columns; i += 16) __builtin_prefetch(from + ahead * source.stride + i);
      SpreadRow(from, source.columns, panel, kc * panel, to + block * width + k * panel);
    }
  }
}

// Four consecutive k of as many columns as a vector has lanes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void TransposeFour(D d, const float* const* rows, std::int64_t k, float* to, std::int64_t panel) {
  V columns[4];
  LoadFourColumns(d, rows, k, columns);
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) hn::StoreU(columns[i], d, to + i * panel);
}

// `count` columns (at most a vector) of one panel, all k. Columns that are missing repeat the last one.
template <class D>
HWY_INLINE void PackColumns(D d, const PackSource& source, std::int64_t column, std::int64_t panel, std::int64_t width,
                            float* to) {
  constexpr std::int64_t lanes = hn::MaxLanes(D());
  const float* rows[lanes];
  for (std::int64_t i = 0; i < lanes; ++i) rows[i] = source.from + std::min(column + i, source.columns - 1) * source.stride;
  const std::int64_t p = column / panel, inside = column % panel;
  for (std::int64_t block = 0; block < source.k; block += k_block) {
    const std::int64_t kc = std::min(k_block, source.k - block);
    float* target = to + block * width + p * kc * panel + inside;
    std::int64_t k = 0;
    for (; k + 4 <= kc; k += 4) {
      if (k % 16 == 0)
        for (std::int64_t i = 0; i < lanes; ++i) __builtin_prefetch(rows[i] + block + k + 128);
      TransposeFour(d, rows, block + k, target + k * panel, panel);
    }
    for (; k < kc; ++k)
      for (std::int64_t i = 0; i < lanes; ++i) target[k * panel + i] = rows[i][block + k];
  }
}

void PackTransposed(const PackSource& source, std::int64_t panel, float* to) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = round_up(source.columns, panel);
  for (std::int64_t column = 0; column < width; column += lanes) PackColumns(d, source, column, panel, width, to);
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(PackStraight);
HWY_EXPORT(PackTransposed);
}  // namespace

Packing packing_for(Isa isa) {
  const ScopedIsa scope(isa);
  return {.straight = &HWY_DYNAMIC_DISPATCH(PackStraight), .transposed = &HWY_DYNAMIC_DISPATCH(PackTransposed)};
}

}  // namespace lockstep::ops::cpu
#endif
