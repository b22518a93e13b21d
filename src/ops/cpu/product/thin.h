#pragma once

// Few rows times a transposed matrix (generating text): B is read once, in place, at the speed of memory. Packing it first would
// cost more than the product. The additions have the order of every other tile.

#include <cstdint>

#include "base/dtype.h"
#include "ops/cpu/options.h"
#include "ops/cpu/product/bf16_way.h"

namespace lockstep::ops::cpu {

/// to[i * panel + j] = sum of a[i * a_stride + k] * b[j * b_stride + k], for `rows` rows and `columns` <= panel columns.
struct ThinStep {
  static constexpr std::int64_t most_rows = 8;
  static constexpr std::int64_t panel = 32;
  const float* a;
  std::int64_t a_stride, rows;
  const void* b;
  std::int64_t b_stride, columns;
  std::int64_t k;
  float* to;
  DType type;             ///< of b: f32 or bf16
  std::int64_t next = 0;  ///< a hint: elements from b to what the caller will read after it
  bool tiled = false;     ///< b lies in whole tiles (tiles.h)
};

/// The kernel for 1 <= rows <= most_rows.
using ThinKernel = void (*)(const ThinStep&);
ThinKernel thin_kernel_for(Isa isa);
/// The product of few rows by AMX, for two bf16 operands.
void thin_amx(const ThinStep& step);
/// The kernel for two bf16 operands, added in the order of `way`. Null for AMX's order without its instruction. `a` holds words
/// of two of a row's elements (bf16_way.h), and a_stride counts words. After an odd k the last word ends with a zero.
ThinKernel bf16_thin_kernel_for(Isa isa, Bf16Way way);

}  // namespace lockstep::ops::cpu
