#pragma once

// Sums inside a row in 16 fixed lanes (numerics.md section 3.2). The lanes are added by the tree (i, i + 8), (i, i + 4), (i, i +
// 2), (0, 1). Half a warp has the lanes of a row. Thread l takes columns l, l + 16, ... in order. All 16 threads get the sum.

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/device/launch.h"

namespace lockstep::ops::cuda {

inline constexpr int lanes = 16;
inline constexpr unsigned row_threads = 128;  ///< threads of a block
inline constexpr int rows_a_block = row_threads / lanes;

/// The mask of the half warp that the calling thread is in.
__device__ __forceinline__ std::uint32_t half_warp() { return threadIdx.x % 32 < 16 ? 0xFFFFU : 0xFFFF0000U; }

template <class T>
__device__ __forceinline__ T lane_sum(T value) {
  for (int apart = lanes / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(half_warp(), value, apart);
  return value;
}
__device__ __forceinline__ float lane_largest(float value) {
  for (int apart = lanes / 2; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(half_warp(), value, apart);
    value = value > other ? value : other;
  }
  return value;
}

/// A row's half warp, lane by lane: body(row, lane).
template <class Body>
__global__ void __launch_bounds__(row_threads) lanes_kernel(std::int64_t rows, Body body) {
  const std::int64_t row = std::int64_t{blockIdx.x} * rows_a_block + threadIdx.x / lanes;
  if (row < rows) body(row, static_cast<int>(threadIdx.x % lanes));
}

/// Calls body(row, lane) for every row, half a warp each.
template <class Body>
void for_rows(const Context& context, std::int64_t rows, const Body& body) {
  launch(context, {blocks_of(rows, rows_a_block), row_threads}, &lanes_kernel<Body>, rows, body);
}

}  // namespace lockstep::ops::cuda
