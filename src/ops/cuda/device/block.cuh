#pragma once

// Values that the threads of a block combine.

#include <cuda_runtime.h>

#include <cstdint>

namespace lockstep::ops::cuda {

inline constexpr unsigned warp = 32;
inline constexpr std::uint32_t whole_warp = 0xFFFFFFFFU;
inline constexpr unsigned most_warps = 32;  ///< warps of a block, at most

struct SumOf {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct LargestOf {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// Every thread gets combine() of all threads' values. All call it, in blocks of whole warps; `parts` lies in shared memory. The
/// order of a sum is not that of numerics.md, so combine() has to be exact.
template <class T, class Combine>
__device__ __forceinline__ T across_block(T value, T (&parts)[most_warps], const Combine& combine) {
  for (int apart = warp / 2; apart > 0; apart /= 2) value = combine(value, __shfl_xor_sync(whole_warp, value, apart));
  __syncthreads();  // the parts of the call before have been read
  if (threadIdx.x % warp == 0) parts[threadIdx.x / warp] = value;
  __syncthreads();
  value = parts[0];
  for (unsigned w = 1; w < blockDim.x / warp; ++w) value = combine(value, parts[w]);
  return value;
}

}  // namespace lockstep::ops::cuda
