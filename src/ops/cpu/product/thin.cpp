#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/product/thin.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <array>
#include <utility>

#include "ops/cpu/isa.h"
#include "ops/cpu/product/pack.h"
#include "ops/cpu/product/thin.h"
#include "ops/cpu/product/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

// Every k of `groups` vectors of columns that start at rows[0], rows[lanes], ... of b.
template <int rows, int groups, class D, class V = hn::Vec<D>>
HWY_INLINE void ThinColumns(D d, const ThinStep& step, const float* const* b, float* to) {
  // How far memory is asked ahead; at a row's end, in the columns that come next.
  constexpr std::int64_t ahead = 64;
  constexpr std::int64_t lanes = hn::MaxLanes(D());
  for (std::int64_t block = 0; block < step.k; block += k_block) {
    const std::int64_t end = std::min(step.k, block + k_block);
    V chain[groups][rows];
    HWY_UNROLL(2)
    for (int g = 0; g < groups; ++g) {
      HWY_UNROLL(8)
      for (int i = 0; i < rows; ++i) chain[g][i] = hn::Zero(d);
    }
    std::int64_t k = block;
    for (; k + 4 <= end; k += 4) {
      if (k % 16 == 0) {
        const std::int64_t there = k + ahead < step.k ? k + ahead : k + ahead - step.k + groups * lanes * step.b_stride;
        for (std::int64_t j = 0; j < groups * lanes; ++j) __builtin_prefetch(b[j] + there);
      }
      HWY_UNROLL(2)
      for (int g = 0; g < groups; ++g) {
        V column[4];
        LoadFourColumns(d, b + g * lanes, k, column);
        HWY_UNROLL(4)
        for (int s = 0; s < 4; ++s) {
          HWY_UNROLL(8)
          for (int i = 0; i < rows; ++i)
            chain[g][i] = hn::MulAdd(hn::Set(d, step.a[i * step.a_stride + k + s]), column[s], chain[g][i]);
        }
      }
    }
    for (; k < end; ++k) {
      HWY_UNROLL(2)
      for (int g = 0; g < groups; ++g) {
        HWY_ALIGN float column[lanes];
        for (std::int64_t j = 0; j < lanes; ++j) column[j] = b[g * lanes + j][k];
        HWY_UNROLL(8)
        for (int i = 0; i < rows; ++i)
          chain[g][i] = hn::MulAdd(hn::Set(d, step.a[i * step.a_stride + k]), hn::Load(d, column), chain[g][i]);
      }
    }
    HWY_UNROLL(2)
    for (int g = 0; g < groups; ++g) {
      HWY_UNROLL(8)
      for (int i = 0; i < rows; ++i) {
        float* sums = to + i * ThinStep::panel + g * lanes;
        hn::StoreU(block == 0 ? chain[g][i] : hn::Add(hn::LoadU(d, sums), chain[g][i]), d, sums);
      }
    }
  }
}

// Two vectors of columns at once while their chains fit the registers: one alone would wait for its own latency.
template <int rows>
void Thin(const ThinStep& step) {
  const hn::CappedTag<float, 8> d;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 8>());
  // Columns that are missing repeat the last one; nobody reads their sums.
  const float* b[ThinStep::panel];
  for (std::int64_t j = 0; j < ThinStep::panel; ++j) b[j] = step.b + std::min(j, step.columns - 1) * step.b_stride;
  const bool crowded = step.b_stride % 1024 == 0;  // rows share a set of the cache, which has no room for sixteen
  if constexpr (rows <= 4) {
    if (!crowded) {
      for (std::int64_t j = 0; j < step.columns; j += 2 * lanes) ThinColumns<rows, 2>(d, step, b + j, step.to + j);
      return;
    }
  }
  for (std::int64_t j = 0; j < step.columns; j += lanes) ThinColumns<rows, 1>(d, step, b + j, step.to + j);
}

template <int... counts>
void ThinOf(std::integer_sequence<int, counts...>, const ThinStep& step) {
  constexpr std::array<ThinKernel, sizeof...(counts)> kernels{&Thin<counts + 1>...};
  kernels[static_cast<std::size_t>(step.rows - 1)](step);
}

void ThinAny(const ThinStep& step) { ThinOf(std::make_integer_sequence<int, 8>(), step); }

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {
HWY_EXPORT(ThinAny);
}  // namespace

ThinKernel thin_kernel_for(Isa isa) {
  const ScopedIsa scope(isa);
  return &HWY_DYNAMIC_DISPATCH(ThinAny);
}

}  // namespace lockstep::ops::cpu
#endif
