#pragma once

// Copies an operand of the product into the order in which the microkernel reads it. It is copied as floats, or bf16 as words of
// two. A word has the elements at k and k + 1, k even, the first in the low half. An odd K is followed by a zero. No bit of a
// result depends on the copy.

#include <cstdint>

#include "base/dtype.h"
#include "ops/cpu/options.h"

namespace lockstep::ops::cpu {

/// The block of k that one chain of additions spans (numerics.md section 3.1).
constexpr std::int64_t k_block = 256;

/// The operand that is copied: element (k, column) lies at from[k * stride + column], or at from[column * stride + k] when
/// transposed.
struct PackSource {
  const void* from = nullptr;
  std::int64_t stride;  ///< in elements
  std::int64_t k, columns;
  DType type = DType::f32;  ///< or bf16, which is widened
  // When transposed:
  std::int64_t first = 0;  ///< the k that packing begins with, a multiple of k_block
  std::int64_t tiled = 0;  ///< so many columns at the beginning, a whole number of tiles, lie in tiles (tiles.h)
};

/// Packs into panels of `panel` columns, cut into blocks of k_block. As floats element (k, column) lies at
///   to[block * k_block * width + p * kc * panel + (k - block * k_block) * panel + column % panel]
/// with p = column / panel, block = k / k_block and kc = the block's k. The width is the number of columns, rounded up to panels.
/// As words it is the same with k, kc and k_block in words. The last panel is padded with any number of the operand, finite or
/// not, or with zero; no result depends on it.
struct Packing {
  /// `panel` is 6, 14, 16 or 32 (words: 14 or 32): a tile's rows or columns.
  void (*straight)(const PackSource& source, std::int64_t panel, float* to);
  /// `panel` is 16 or 32.
  void (*transposed)(const PackSource& source, std::int64_t panel, float* to);
  /// Without panels: element (k, column) goes to to[k * to_stride + column]. Words are of two columns, of a bf16 source.
  void (*rows)(const PackSource& source, std::int64_t to_stride, float* to);
  /// Turns columns into rows: the word of k and k + 1 goes to to[column * to_stride + k / 2]. Null without words. At most k_block
  /// elements of k.
  void (*turned)(const PackSource& source, std::int64_t to_stride, float* to) = nullptr;
};

/// Packs operands as floats.
Packing packing_for(Isa isa);
/// Packs bf16 operands as words of two.
Packing bf16_packing_for(Isa isa);

}  // namespace lockstep::ops::cpu
