#pragma once

// A product on tensor cores in bf16, for tests of the emulation: c [m, 16] = a [m, k] b. `b` is [16, k] or transposed [k, 16].
// Two stages of shared memory: while one is multiplied the next is copied.

#include <cstdint>

#include "cuda_bf16.h"
#include "cuda_runtime.h"
#include "ops/cuda/native/tensor_core.cuh"

namespace lockstep::emulation {

inline constexpr int step = 16;               // of k
inline constexpr unsigned product_rows = 32;  // of a block: 16 of a warp
inline constexpr unsigned product_threads = 64;

struct ProductShared {
  alignas(16) __nv_bfloat16 a[2][product_rows][step];
  alignas(16) __nv_bfloat16 b[2][step][step];
};

/// Starts the copies of step `number`: eight numbers a thread and matrix.
inline __device__ void copy_step(ProductShared& shared, const __nv_bfloat16* a, const __nv_bfloat16* b, int k, int number,
                                 bool transposed) {
  const int t = static_cast<int>(threadIdx.x), row = t / 2, column = t % 2 * 8, stage = number % 2, first = number * step;
  const auto a_row = static_cast<std::int64_t>(blockIdx.x * product_rows) + row;
  ops::cuda::copy_16_async(&shared.a[stage][row][column], a + a_row * k + first + column);
  if (row < step) {
    ops::cuda::copy_16_async(&shared.b[stage][row][column],
                             transposed ? b + (first + row) * step + column : b + row * k + first + column);
  }
  ops::cuda::copies_commit();
}

/// Adds the products of the step in `stage` to a warp's 16 x 16 sums.
inline __device__ void multiply_step(ProductShared& shared, int stage, bool transposed, float (&left)[4], float (&right)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t a[4], b[4];
  ops::cuda::ldmatrix_x4(a, &shared.a[stage][warp * 16 + lane % 16][lane / 16 * 8]);
  if (transposed) {
    ops::cuda::ldmatrix_x4_transposed(b, &shared.b[stage][lane % 16][lane / 16 * 8]);
  } else {
    ops::cuda::ldmatrix_x4(b, &shared.b[stage][lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]);
  }
  ops::cuda::mma_16816(left, a, {b[0], b[1]});
  ops::cuda::mma_16816(right, a, {b[2], b[3]});
}

/// k is a multiple of 16, and a has whole blocks of rows.
__global__ inline void tensor_product(float* c, const __nv_bfloat16* a, const __nv_bfloat16* b, int k, bool transposed) {
  auto& shared = ops::cuda::shared_memory<ProductShared>();
  float sums[2][4] = {};
  copy_step(shared, a, b, k, 0, transposed);
  for (int number = 0; number < k / step; ++number) {
    if ((number + 1) * step < k) {
      copy_step(shared, a, b, k, number + 1, transposed);
      ops::cuda::copies_wait<1>();
    } else {
      ops::cuda::copies_wait<0>();
    }
    __syncthreads();
    multiply_step(shared, number % 2, transposed, sums[0], sums[1]);
    __syncthreads();
  }
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 4; ++i) {
      const int row = static_cast<int>(blockIdx.x * product_rows) + warp * 16 + lane / 4 + i / 2 * 8;
      c[row * step + half * 8 + lane % 4 * 2 + i % 2] = sums[half][i];
    }
  }
}

}  // namespace lockstep::emulation
