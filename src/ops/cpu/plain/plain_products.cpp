// Products as plain loops.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/plain/plain_products.cpp"
#include <hwy/foreach_target.h>
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <type_traits>

#include "base/checked.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/plain/plain_products.h"
#include "ops/cpu/product/apart.h"
#include "tensor/bfloat16.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ops::cpu::HWY_NAMESPACE {

inline float PlainWide(float x) { return x; }
inline float PlainWide(BFloat16 x) { return to_float(x); }

template <class T>
const T* PlainElementsOf(const void* from) {
  return static_cast<const T*>(from);
}

/// sums += a * b, as the kernels of this instruction set multiply and add.
inline void PlainAddRow(float a, const float* HWY_RESTRICT b, float* HWY_RESTRICT sums) {
  for (std::int64_t j = 0; j < plain_columns; ++j) {
    if constexpr (HWY_NATIVE_FMA != 0) {
      sums[j] = __builtin_fmaf(a, b[j], sums[j]);
    } else {
      sums[j] = a * b[j] + sums[j];
    }
  }
}

/// A block of k of an area's columns of B: rows of floats.
struct PlainBlock {
  const float* rows;
  std::int64_t stride, count;
};

/// The block turned or widened to rows of plain_columns floats; what is missing of a row is 0.
template <class T>
void PlainTakeB(const ProductTask& task, std::int64_t k, std::int64_t count, std::int64_t column, std::int64_t columns,
                float* to) {
  const T* b = PlainElementsOf<T>(task.b);
  if (columns < plain_columns) std::fill_n(to, count * plain_columns, 0.0F);
  if (task.b_transposed) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const T* row = b + (column + j) * task.b_stride + k;
      for (std::int64_t i = 0; i < count; ++i) to[i * plain_columns + j] = PlainWide(row[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const T* row = b + (k + i) * task.b_stride + column;
    for (std::int64_t j = 0; j < columns; ++j) to[i * plain_columns + j] = PlainWide(row[j]);
  }
}

/// Where it lies in rows of floats already it is read there.
inline PlainBlock PlainBlockOf(const ProductTask& task, const Area& area, std::int64_t k, float* scratch) {
  const std::int64_t count = std::min(k_block, task.k - k);
  if (!task.b_transposed && task.b_type == DType::f32 && area.columns == plain_columns)
    return {PlainElementsOf<float>(task.b) + k * task.b_stride + area.column, task.b_stride, count};
  const auto take = task.b_type == DType::bf16 ? &PlainTakeB<BFloat16> : &PlainTakeB<float>;
  take(task, k, count, area.column, area.columns, scratch);
  return {scratch, plain_columns, count};
}

/// One row of a block of k.
template <class T>
void PlainMultiplyRow(const ProductTask& task, std::int64_t row, std::int64_t k, const PlainBlock& b, float* sums) {
  const std::int64_t step = task.a_transposed ? task.a_stride : 1;
  const T* a = PlainElementsOf<T>(task.a) + (task.a_transposed ? k * task.a_stride + row : row * task.a_stride + k);
  alignas(64) float chain[plain_columns] = {};
  for (std::int64_t i = 0; i < b.count; ++i) PlainAddRow(PlainWide(a[i * step]), b.rows + i * b.stride, chain);
  std::copy_n(chain, plain_columns, sums);
}

/// What the blocks of k are added onto, if there is anything, and where their sums go.
struct PlainSums {
  const float* onto;
  std::int64_t onto_stride;
  float* to;
  std::int64_t to_stride;
};

inline PlainSums PlainSumsOf(const ProductTask& task, const Area& area, float* aside) {
  const bool finished = task.finish.apply != nullptr;
  PlainSums sums{nullptr, 0, finished ? aside : task.c + area.row * task.c_stride + area.column,
                 finished ? plain_columns : task.c_stride};
  if (task.accumulate) {
    sums.onto = sums.to;
    sums.onto_stride = sums.to_stride;
  } else if (task.onto != nullptr) {
    sums.onto = task.onto + area.row * task.onto_stride + area.column;
    sums.onto_stride = task.onto_stride;
  }
  return sums;
}

void PlainMultiplyArea(const ProductTask& task, const Area& area, float* scratch) {
  float* aside = scratch + k_block * plain_columns;
  const PlainSums sums = PlainSumsOf(task, area, aside);
  for (std::int64_t k = 0; k < task.k; k += k_block) {
    const PlainBlock b = PlainBlockOf(task, area, k, scratch);
    for (std::int64_t i = 0; i < area.rows; ++i) {
      alignas(64) float block[plain_columns];
      const auto multiply = task.a_type == DType::bf16 ? &PlainMultiplyRow<BFloat16> : &PlainMultiplyRow<float>;
      multiply(task, area.row + i, k, b, block);
      float* to = sums.to + i * sums.to_stride;
      const float* before = to;
      if (k == 0) before = sums.onto == nullptr ? nullptr : sums.onto + i * sums.onto_stride;
      for (std::int64_t j = 0; j < area.columns; ++j) to[j] = before == nullptr ? block[j] : before[j] + block[j];
    }
  }
  if (task.finish.apply != nullptr) task.finish.apply(task.finish.context, area, aside, plain_columns);
}

}  // namespace lockstep::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ops::cpu {
namespace {

HWY_EXPORT(PlainMultiplyArea);

// A block of B stays near while as many rows are multiplied.
constexpr std::int64_t area_rows = 256;
constexpr std::int64_t worker_floats = (k_block + area_rows) * plain_columns;

PlainArea area_kernel(Isa isa) {
  const ScopedIsa scope(isa);
  return &HWY_DYNAMIC_DISPATCH(PlainMultiplyArea);
}

Area area_of(const ProductTask& task, std::int64_t number) {
  const std::int64_t row_blocks = div_up(task.m, area_rows);
  const std::int64_t row = number % row_blocks * area_rows, column = number / row_blocks * plain_columns;
  return {row, column, std::min(area_rows, task.m - row), std::min(plain_columns, task.n - column)};
}

std::int64_t areas_of(const ProductTask& task) { return div_up(task.m, area_rows) * div_up(task.n, plain_columns); }

}  // namespace

PlainProducts::PlainProducts(Team& team, Isa isa, MemorySource& memory)
    : team_(team), area_(area_kernel(isa)), memory_(memory.allocate(static_cast<std::size_t>(worker_floats * team.size() * 4))) {}

float* PlainProducts::scratch_of(int worker) const { return reinterpret_cast<float*>(memory_.data()) + worker_floats * worker; }

void PlainProducts::run(const ProductTask& task) {
  if (task.sums != nullptr) sum_rows(task, team_);
  team_.for_each(areas_of(task),
                 [&](std::int64_t number, int worker) { area_(task, area_of(task, number), scratch_of(worker)); });
}

void PlainProducts::run_alone(const ProductTask& task, int worker) {
  for (std::int64_t number = 0; number < areas_of(task); ++number) area_(task, area_of(task, number), scratch_of(worker));
}

}  // namespace lockstep::ops::cpu
#endif
