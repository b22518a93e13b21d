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

// chain[i] += a[i][k] * column for every row.
template <int rows, class D, class V = hn::Vec<D>>
HWY_INLINE void AddProducts(D d, const ThinStep& step, std::int64_t k, V column, V* chain) {
  HWY_UNROLL(8)
  for (int i = 0; i < rows; ++i) chain[i] = hn::MulAdd(hn::Set(d, step.a[i * step.a_stride + k]), column, chain[i]);
}

// Every k of `groups` vectors of columns that start at rows[0], rows[lanes], ... of b.
template <int rows, int groups, class T, class D, class V = hn::Vec<D>>
HWY_INLINE void ThinColumns(D d, const ThinStep& step, const T* const* b, float* to) {
  constexpr std::int64_t depth = word_depth<T>, line = 64 / sizeof(T);
  // How far memory is asked ahead; at a row's end, in the columns that come next.
  constexpr std::int64_t ahead = 4 * line;
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
    for (; k + depth <= end; k += depth) {
      if (k % line == 0) {
        const std::int64_t there = k + ahead < step.k ? k + ahead : k + ahead - step.k + groups * lanes * step.b_stride;
        for (std::int64_t j = 0; j < groups * lanes; ++j) __builtin_prefetch(b[j] + there);
      }
      HWY_UNROLL(2)
      for (int g = 0; g < groups; ++g) {
        V words[4];
        LoadFourWords(d, b + g * lanes, k, words);
        HWY_UNROLL(4)
        for (int s = 0; s < 4; ++s) {
          AddProducts<rows>(d, step, k + s * (depth / 4), ElementOf<T, 0>(d, words[s]), chain[g]);
          if constexpr (depth == 8) AddProducts<rows>(d, step, k + 2 * s + 1, ElementOf<T, 1>(d, words[s]), chain[g]);
        }
      }
    }
    for (; k < end; ++k) {
      HWY_UNROLL(2)
      for (int g = 0; g < groups; ++g) {
        HWY_ALIGN float column[lanes];
        for (std::int64_t j = 0; j < lanes; ++j) column[j] = Widened(b[g * lanes + j][k]);
        AddProducts<rows>(d, step, k, hn::Load(d, column), chain[g]);
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
template <int rows, class T>
void Thin(const ThinStep& step) {
  const hn::CappedTag<float, 8> d;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 8>());
  // Columns that are missing repeat the last one; nobody reads their sums.
  const T* b[ThinStep::panel];
  for (std::int64_t j = 0; j < ThinStep::panel; ++j)
    b[j] = static_cast<const T*>(step.b) + std::min(j, step.columns - 1) * step.b_stride;
  // Rows that share a set of the cache, which has no room for sixteen.
  const bool crowded = step.b_stride * static_cast<std::int64_t>(sizeof(T)) % 4096 == 0;
  if constexpr (rows <= 4) {
    if (!crowded) {
      for (std::int64_t j = 0; j < step.columns; j += 2 * lanes) ThinColumns<rows, 2>(d, step, b + j, step.to + j);
      return;
    }
  }
  for (std::int64_t j = 0; j < step.columns; j += lanes) ThinColumns<rows, 1>(d, step, b + j, step.to + j);
}

template <class T, int... counts>
void ThinOf(std::integer_sequence<int, counts...>, const ThinStep& step) {
  constexpr std::array<ThinKernel, sizeof...(counts)> kernels{&Thin<counts + 1, T>...};
  kernels[static_cast<std::size_t>(step.rows - 1)](step);
}

void ThinAny(const ThinStep& step) {
  const std::make_integer_sequence<int, 8> counts;
  return step.type == DType::bf16 ? ThinOf<BFloat16>(counts, step) : ThinOf<float>(counts, step);
}

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
