#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/product/thin.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>
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
    HWY_UNROLL(4)
    for (int g = 0; g < groups; ++g) {
      HWY_UNROLL(8)
      for (int i = 0; i < rows; ++i) chain[g][i] = hn::Zero(d);
    }
    std::int64_t k = block;
    for (; k + depth <= end; k += depth) {
      // A quarter of the columns at every fourth of a line: all at once they would wait for each other.
      const std::int64_t quarter = k % line / depth, next = k - k % line + ahead;
      const std::int64_t there = next < step.k ? next : next - step.k + groups * lanes * step.b_stride;
      for (std::int64_t j = 0; j < groups * lanes / 4; ++j) __builtin_prefetch(b[quarter * (groups * lanes / 4) + j] + there);
      HWY_UNROLL(4)
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
      HWY_UNROLL(4)
      for (int g = 0; g < groups; ++g) {
        HWY_ALIGN float column[lanes];
        for (std::int64_t j = 0; j < lanes; ++j) column[j] = Widened(b[g * lanes + j][k]);
        AddProducts<rows>(d, step, k, hn::Load(d, column), chain[g]);
      }
    }
    HWY_UNROLL(4)
    for (int g = 0; g < groups; ++g) {
      HWY_UNROLL(8)
      for (int i = 0; i < rows; ++i) {
        float* sums = to + i * ThinStep::panel + g * lanes;
        hn::StoreU(block == 0 ? chain[g][i] : hn::Add(hn::LoadU(d, sums), chain[g][i]), d, sums);
      }
    }
  }
}

// Whether `columns` rows of b leave each other in the first-level cache (64 sets of 8 lines).
template <class T>
bool FitTogether(const ThinStep& step, std::int64_t columns) {
  const std::int64_t lines = step.b_stride * static_cast<std::int64_t>(sizeof(T)) / 64;
  const std::int64_t sets = 64 / std::gcd(lines, std::int64_t{64});
  return columns <= 8 * sets;
}

template <int rows, int groups, class T, class D>
HWY_INLINE void ThinPanel(D d, const ThinStep& step, const T* const* b) {
  constexpr std::int64_t columns = groups * static_cast<std::int64_t>(hn::MaxLanes(D()));
  for (std::int64_t j = 0; j < step.columns; j += columns) ThinColumns<rows, groups>(d, step, b + j, step.to + j);
}

// Several vectors of columns at once while their chains fit the registers: one alone would wait for its own latency. bf16, of
// which a line has twice as many elements, wants more of them.
template <int rows, class T>
void Thin(const ThinStep& step) {
  const hn::CappedTag<float, 8> d;
  constexpr std::int64_t lanes = hn::MaxLanes(hn::CappedTag<float, 8>());
  // Columns that are missing repeat the last one; nobody reads their sums.
  const T* b[ThinStep::panel];
  for (std::int64_t j = 0; j < ThinStep::panel; ++j)
    b[j] = static_cast<const T*>(step.b) + std::min(j, step.columns - 1) * step.b_stride;
  if constexpr (rows <= 2 && std::is_same_v<T, BFloat16>) {
    if (FitTogether<T>(step, 4 * lanes)) return ThinPanel<rows, 4>(d, step, b);
  }
  if constexpr (rows <= 4) {
    if (FitTogether<T>(step, 2 * lanes)) return ThinPanel<rows, 2>(d, step, b);
  }
  ThinPanel<rows, 1>(d, step, b);
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
