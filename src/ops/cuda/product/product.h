#pragma once

// Products of a fixed order of additions (numerics.md section 3.1): an element is a function of its row, its column and K. Blocks
// of 256 k are added in order. Each is one chain of fused multiply-adds from zero, which gives the CPU's bits. With an operand in
// bf16, and where the context says so, an element is a chain of mma instructions. The chain spans all k, or a block of 8,192
// tokens.

#include "ops/cuda/context.h"
#include "ops/cuda/product/epilogue.cuh"
#include "ops/sum_grid.h"

namespace lockstep::ops::cuda {

/// The left operand's element (i, k), or the right one's (k, i), lies at data[i * across + k * along]; f32 or bf16.
struct Operand {
  const std::byte* data;
  std::int64_t across, along;
  bool narrow;          ///< bf16
  bool copies = false;  ///< pieces of 16 bytes can be copied as they are, as tensor cores need it
  static Operand rows(const Tensor& t) { return {t.data, t.stride(), 1, t.dtype == DType::bf16}; }
  static Operand columns(const Tensor& t) { return {t.data, 1, t.stride(), t.dtype == DType::bf16}; }
};

/// C [m, n] = A [m, k] B [k, n], which `finish` stores.
struct ProductTask {
  std::int64_t m, n, k;
  Operand a, b;
  Finish finish;
  /// [m, n] f32 or null: blocks are added onto it; with a grid the whole sum is.
  Rows<const float> onto = {};
  bool over_tokens = false;  ///< a gradient of a weight: k counts tokens, and y is f32
};

/// Runs a product. `grid` has the ranges by which k is summed; null: blocks of 256.
void multiply(const Context& context, const ProductTask& task, const SumGrid* grid = nullptr);
/// A product with a bf16 operand on tensor cores, which multiply() calls. An f32 operand beside it is rounded to bf16. It takes
/// no grid: a warp has no registers for the tree of the ranges' sums.
void multiply_on_tensor_cores(const Context& context, const ProductTask& task);

}  // namespace lockstep::ops::cuda
