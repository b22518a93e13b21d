#include "ops/cpu/product/microkernel.h"

#include <algorithm>
#include <utility>

#include "ops/cpu/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/product/microkernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/product/bf16_way.h"
#include "ops/cpu/product/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two vectors wide, `rows` high. The baseline's panel is two such tiles side by side.
template <int rows, class Add, class D, class V = hn::Vec<D>>
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
      low[i] = Add::add(d, factor, b0, low[i]);
      high[i] = Add::add(d, factor, b1, high[i]);
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

template <int rows, class Add>
void Tile(const TileStep& step) {
  const hn::CappedTag<float, 16> d;
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t panel = width < 16 ? 16 : width;
  for (std::int64_t column = 0; column < panel; column += width) HalfTile<rows, Add>(d, step, panel, column);
}

template <class Add, int... counts>
Microkernel Kernels(std::integer_sequence<int, counts...>) {
  constexpr int lanes = static_cast<int>(hn::MaxLanes(hn::CappedTag<float, 16>()));
  return {.rows = static_cast<int>(sizeof...(counts)),
          .columns = lanes == 16 ? 32 : 16,
          .of_rows = {nullptr, &Tile<counts + 1, Add>...}};
}

// 14 x 32 where there are 32 registers of 16 lanes, else 6 x 16.
constexpr bool wide = hn::MaxLanes(hn::CappedTag<float, 16>()) == 16;

Microkernel AllKernels() { return Kernels<AddFloats>(std::make_integer_sequence<int, wide ? 14 : 6>()); }

// None where there is no AVX-512.
Microkernel PairKernels() {
  if constexpr (wide) {
    return Kernels<AddPairs>(std::make_integer_sequence<int, 14>());
  } else {
    return {};
  }
}

// The tiles of AVX-512 and AMX on any vectors. The sums of their rows are functions of their own, so that no addition leaves the
// time of FlushedDenormals.
constexpr std::int64_t emulated_panel = 32;
HWY_NOINLINE void EmulatedPairRows(TileStep step) {
  const hn::CappedTag<float, 16> d;
  const auto width = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < step.rows; ++row, step.a += step.a_row, step.to += step.to_stride)
    for (std::int64_t column = 0; column < emulated_panel; column += width)
      HalfTile<1, AddPairsEmulated>(d, step, emulated_panel, column);
}

// Sums of 16 words at a time.
HWY_NOINLINE void EmulatedAmxRows(TileStep step) {
  const hn::CappedTag<float, 16> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 16>()), together = 16;
  for (std::int64_t row = 0; row < step.rows; ++row) {
    const float* a = step.a + row * step.a_row;
    for (std::int64_t column = 0; column < emulated_panel; column += lanes) {
      V sum = hn::Zero(d);
      for (std::int64_t first = 0; first < step.k; first += together) {
        V even = hn::Zero(d), odd = hn::Zero(d);
        const std::int64_t end = std::min(step.k, first + together);
        for (std::int64_t k = first; k < end; ++k) {
          const V factor = hn::Set(d, a[k * step.a_k]), b = hn::LoadU(d, step.b + k * emulated_panel + column);
          even = Fused(d, FirstOf(d, factor), FirstOf(d, b), even);
          odd = Fused(d, SecondOf(d, factor), SecondOf(d, b), odd);
        }
        if (end < first + together) {  // the zeros behind K
          even = hn::Add(even, hn::Zero(d));
          odd = hn::Add(odd, hn::Zero(d));
        }
        sum = hn::Add(sum, hn::Add(even, odd));
      }
      hn::StoreU(sum, d, step.to + row * step.to_stride + column);
    }
  }
}

template <void (*sum_rows)(TileStep)>
void EmulatedTile(const TileStep& step) {
  HWY_ALIGN float block[Microkernel::most_rows * emulated_panel];
  TileStep aside = step;
  aside.from = nullptr;
  aside.to = block;
  aside.to_stride = emulated_panel;
  {
    const FlushedDenormals flushed;
    sum_rows(aside);
  }
  for (std::int64_t i = 0; i < step.rows; ++i) {
    for (std::int64_t j = 0; j < emulated_panel; ++j) {
      const float sum = block[i * emulated_panel + j];
      step.to[i * step.to_stride + j] = step.from == nullptr ? sum : step.from[i * step.from_stride + j] + sum;
    }
  }
}

template <void (*sum_rows)(TileStep)>
Microkernel EmulatedKernels(int rows) {
  Microkernel kernels{.rows = rows, .columns = static_cast<int>(emulated_panel), .of_rows = {}};
  kernels.of_rows.fill(&EmulatedTile<sum_rows>);
  return kernels;
}

Microkernel EmulatedPairKernels() { return EmulatedKernels<&EmulatedPairRows>(14); }
Microkernel EmulatedAmxKernels() { return EmulatedKernels<&EmulatedAmxRows>(32); }

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(AllKernels);
HWY_EXPORT(PairKernels);
HWY_EXPORT(EmulatedPairKernels);
HWY_EXPORT(EmulatedAmxKernels);

Microkernel amx_microkernel() {
  Microkernel kernels{.rows = 32, .columns = 32, .of_rows = {}, .ahead_bytes = 64};
  if constexpr (HWY_ARCH_X86 != 0) {
    kernels.of_rows.fill(&tile_32x32_amx);
    kernels.begin = &begin_amx;
    kernels.end = &end_amx;
  }
  return kernels;
}

}  // namespace

Microkernel microkernel_for(Isa isa) {
  const ScopedIsa scope(isa);
  Microkernel kernels = HWY_DYNAMIC_DISPATCH(AllKernels)();
  [[maybe_unused]] const Isa resolved = resolve(isa);
  if constexpr (HWY_ARCH_X86 != 0) {
    if (resolved == Isa::avx2) kernels.of_rows[6] = &tile_6x16_avx2;
    if (resolved == Isa::avx512 || resolved == Isa::avx512_bf16 || resolved == Isa::amx) {
      kernels.of_rows[14] = &tile_14x32_avx512;
      kernels.ahead_bytes = 128;
    }
  }
  return kernels;
}

Microkernel bf16_microkernel_for(Isa isa, Bf16Way way) {
  const ScopedIsa scope(isa);
  if (way == Bf16Way::emulated_amx) return HWY_DYNAMIC_DISPATCH(EmulatedAmxKernels)();
  if (way == Bf16Way::amx) return amx_microkernel();
  if (way != Bf16Way::pairs) return HWY_DYNAMIC_DISPATCH(EmulatedPairKernels)();
  Microkernel kernels = HWY_DYNAMIC_DISPATCH(PairKernels)();
  if constexpr (HWY_ARCH_X86 != 0) {
    kernels.of_rows[14] = &tile_14x32_pairs;
    kernels.ahead_bytes = 128;
  }
  return kernels;
}

}  // namespace lockstep::ops::cpu
#endif
