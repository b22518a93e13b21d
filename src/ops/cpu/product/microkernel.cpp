#include "ops/cpu/product/microkernel.h"

#include <utility>

#include "ops/cpu/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/product/microkernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two vectors wide, `rows` high. The baseline's panel is two such tiles side by side.
template <int rows, class D, class V = hn::Vec<D>>
HWY_INLINE void HalfTile(D d, const TileStep& step, std::int64_t panel, std::int64_t column) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V low[rows], high[rows];
  HWY_UNROLL(14)
  for (int i = 0; i < rows; ++i) low[i] = high[i] = hn::Zero(d);
  const float* a = step.a;
  const float* b = step.b + column;
  for (std::int64_t k = 0; k < step.k; ++k, a += step.a_k, b += panel) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
    HWY_UNROLL(14)
    for (int i = 0; i < rows; ++i) {
      const V factor = hn::Set(d, a[i * step.a_row]);
      low[i] = hn::MulAdd(factor, b0, low[i]);
      high[i] = hn::MulAdd(factor, b1, high[i]);
    }
  }
  HWY_UNROLL(14)
  for (int i = 0; i < rows; ++i) {
    if (step.from != nullptr) {
      const float* from = step.from + i * step.from_stride + column;
      low[i] = hn::Add(hn::LoadU(d, from), low[i]);
      high[i] = hn::Add(hn::LoadU(d, from + lanes), high[i]);
    }
    float* to = step.to + i * step.to_stride + column;
    hn::StoreU(low[i], d, to);
    hn::StoreU(high[i], d, to + lanes);
  }
}

template <int rows>
void Tile(const TileStep& step) {
  const hn::CappedTag<float, 16> d;
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t panel = width < 16 ? 16 : width;
  for (std::int64_t column = 0; column < panel; column += width) HalfTile<rows>(d, step, panel, column);
}

template <int... counts>
Microkernel Kernels(std::integer_sequence<int, counts...>) {
  constexpr int lanes = static_cast<int>(hn::MaxLanes(hn::CappedTag<float, 16>()));
  return {
      .rows = static_cast<int>(sizeof...(counts)), .columns = lanes == 16 ? 32 : 16, .of_rows = {nullptr, &Tile<counts + 1>...}};
}

// 14 x 32 where there are 32 registers of 16 lanes, else 6 x 16.
Microkernel AllKernels() {
  constexpr bool wide = hn::MaxLanes(hn::CappedTag<float, 16>()) == 16;
  return Kernels(std::make_integer_sequence<int, wide ? 14 : 6>());
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(AllKernels);
}  // namespace

Microkernel microkernel_for(Isa isa) {
  const ScopedIsa scope(isa);
  Microkernel kernels = HWY_DYNAMIC_DISPATCH(AllKernels)();
  if (resolve(isa) == Isa::avx2) kernels.of_rows[6] = &tile_6x16_avx2;
  return kernels;
}

}  // namespace lockstep::ops::cpu
#endif
