#pragma once

// Sums over tokens, for gradients of gains and biases. Blocks of 64 rows are each summed in order from zero, then added in order
// (numerics.md section 3.2). Blocks are summed side by side, as many at a time as the workspace holds.

#include <array>

#include "ops/check.h"
#include "ops/cuda/device/each.cuh"

namespace lockstep::ops::cuda {

inline constexpr std::int64_t block_rows = 64;
inline constexpr unsigned column_threads = 128;

/// Makes the parts of the sums, block by block. body.add(sums, i, j) adds row i's terms of column j. The part of block b lies at
/// parts[b * Body::sums * columns], `columns` numbers for each sum.
template <class Body>
__global__ void __launch_bounds__(column_threads)
    row_blocks_kernel(float* parts, std::int64_t first, std::int64_t last, std::int64_t columns, Body body) {
  const std::int64_t j = std::int64_t{blockIdx.y} * column_threads + threadIdx.x;
  if (j >= columns) return;
  const std::int64_t begin = first + blockIdx.x * block_rows, end = begin + block_rows < last ? begin + block_rows : last;
  float sums[Body::sums] = {};
  for (std::int64_t i = begin; i < end; ++i) body.add(sums, i, j);
  for (int s = 0; s < Body::sums; ++s) parts[(std::int64_t{blockIdx.x} * Body::sums + s) * columns + j] = sums[s];
}

/// sum[j] (+)= the blocks' parts, `stride` apart, in order.
struct AddBlocks {
  float* sum;
  const float* parts;
  std::int64_t blocks, stride;
  bool accumulate;
  __device__ void operator()(std::int64_t j) const {
    float total = accumulate ? sum[j] : 0.0F;
    for (std::int64_t b = 0; b < blocks; ++b) total += parts[b * stride + j];
    sum[j] = total;
  }
};

/// results[s] [columns] (+)= the sums over `rows` rows; a result may be null.
template <class Body>
void sum_over_rows(const Context& context, const std::array<float*, Body::sums>& results, std::int64_t rows, std::int64_t columns,
                   const Body& body, bool accumulate) {
  const std::span<float> parts = context.scratch<float>();
  const std::int64_t stride = Body::sums * columns, per_round = std::ssize(parts) / stride;
  demand(per_round > 0, "x", "two rows of it fit the workspace");
  std::int64_t row = 0;
  do {
    const std::int64_t last = std::min(rows, row + per_round * block_rows), blocks = div_up(last - row, block_rows);
    const dim3 grid(narrow<unsigned>(blocks), blocks_of(columns, column_threads));
    launch(context, {grid, column_threads}, &row_blocks_kernel<Body>, parts.data(), row, last, columns, body);
    for (std::size_t s = 0; s < results.size(); ++s) {
      if (results[s] == nullptr) continue;
      const float* const of_sum = parts.data() + static_cast<std::int64_t>(s) * columns;
      for_elements(context, columns, AddBlocks{results[s], of_sum, blocks, stride, accumulate});
    }
    accumulate = true;
    row = last;
  } while (row < rows);
}

}  // namespace lockstep::ops::cuda
