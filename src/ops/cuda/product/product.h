#pragma once

// Products of a fixed order of additions (numerics.md section 3.1): an element is a function of its row, its column and K. Blocks
// of 256 k are added in order. Each is one chain of fused multiply-adds from zero, which gives the CPU's bits. With an operand in
// bf16 it is a chain of mma instructions where the context says so: of all k, or of blocks of 8,192 tokens.

#include "ops/cuda/context.h"
#include "ops/cuda/product/epilogue.cuh"
#include "ops/sum_grid.h"

namespace lockstep::ops::cuda {

/// The left operand's element (i, k), or the right one's (k, i), lies at data[i * across + k * along]; f32 or bf16.
struct Operand {
  const std::byte* data;
  std::int64_t across, along;
  bool narrow;          ///< bf16
  bool copies = false;  ///< pieces of 16 bytes can be copied as they are, which tensor cores ask
  static Operand rows(const Tensor& t) { return {t.data, t.stride(), 1, t.dtype == DType::bf16}; }
  static Operand columns(const Tensor& t) { return {t.data, 1, t.stride(), t.dtype == DType::bf16}; }
};

/// C [m, n] = A [m, k] B [k, n], behind which `finish` stores it.
struct ProductTask {
  std::int64_t m, n, k;
  Operand a, b;
  Finish finish;
  /// [m, n] f32 or null: blocks are added onto it; with a grid the whole sum is.
  Rows<const float> onto = {};
  bool over_tokens = false;  ///< a gradient of a weight: k counts tokens, and y is f32
};

/// `grid`: by which ranges k is summed; null: in blocks of 256.
void multiply(const Context& context, const ProductTask& task, const SumGrid* grid = nullptr);
/// The product with a bf16 operand, which multiply() calls; another in f32 is rounded to bf16. Sums by ranges are not made there:
/// a warp has no registers for their tree.
void multiply_on_tensor_cores(const Context& context, const ProductTask& task);

}  // namespace lockstep::ops::cuda
