#pragma once

// Kernels that call a function object for every element, which is all that element-wise work needs.

#include <algorithm>

#include "ops/cuda/device/launch.h"
#include "ops/cuda/device/storage.cuh"

namespace lockstep::ops::cuda {

inline constexpr unsigned element_threads = 256;

template <class Body>
__global__ void __launch_bounds__(element_threads) element_kernel(std::int64_t count, Body body) {
  const std::int64_t i = std::int64_t{blockIdx.x} * element_threads + threadIdx.x;
  if (i < count) body(i);
}

template <class Body>
__global__ void __launch_bounds__(element_threads) row_kernel(std::int64_t columns, Body body) {
  for (std::int64_t j = threadIdx.x; j < columns; j += blockDim.x) body(std::int64_t{blockIdx.x}, j);
}

/// Calls body(i) for i in [0, count), a thread each.
template <class Body>
void for_elements(const Context& context, std::int64_t count, const Body& body) {
  launch(context, {blocks_of(count, element_threads), element_threads}, &element_kernel<Body>, count, body);
}

/// Calls body(i, j) for the elements of a matrix, a block for each row.
template <class Body>
void for_matrix(const Context& context, std::int64_t rows, std::int64_t columns, const Body& body) {
  const auto threads = std::min<std::int64_t>(element_threads, round_up(std::max<std::int64_t>(columns, 1), 32));
  launch(context, {narrow<unsigned>(rows), static_cast<unsigned>(threads)}, &row_kernel<Body>, columns, body);
}

}  // namespace lockstep::ops::cuda
