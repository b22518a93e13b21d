#pragma once

// The C++ twin of the file with Hopper's products of a warpgroup. It is written from the PTX manual, "Asynchronous warpgroup
// level matrix instructions". Shared memory is in rows of 128 bytes, swizzled by 128 bytes. Fragments are those of m64nNk16.

#include <bit>
#include <cstdint>

#include "cuda_runtime.h"
#include "emulation/tensor_product.h"
#include "tensor/bfloat16.h"

namespace lockstep::ops::cuda {

/// Element (i, k) of an operand whose first row and first k lie at `start`.
template <bool along>
float operand_element(const BFloat16* start, int i, int k) {
  auto address = std::bit_cast<std::uintptr_t>(start);
  address += static_cast<std::uintptr_t>(along ? i / 8 * 1024 + i % 8 * 128 + k * 2
                                               : i / 64 * 8192 + k / 8 * 1024 + k % 8 * 128 + i % 64 * 2);
  address ^= address >> 3 & 0x70;
  return to_float(*std::bit_cast<const BFloat16*>(address));
}

/// d [64, 128] += a [64, 16] b [16, 128]. A warp has 16 rows of d, a lane rows lane / 4 and lane / 4 + 8 of these. In them it has
/// two columns of every eight.
template <bool a_along, bool b_along>
void warpgroup_product(float (&d)[64], const BFloat16* a, const BFloat16* b) {
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
  float left[2][16];
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k) left[half][k] = operand_element<a_along>(a, thread / 32 * 16 + lane / 4 + half * 8, k);
  for (int column = 0; column < 128; column += column % 2 == 0 ? 1 : 7) {
    const int own = column + lane % 4 * 2;
    float right[16];
    for (int k = 0; k < 16; ++k) right[k] = operand_element<b_along>(b, own, k);
    for (int half = 0; half < 2; ++half) {
      float& sum = d[column / 8 * 4 + half * 2 + column % 2];
      sum = emulation::add_sixteen(sum, left[half], right);
    }
  }
}

inline void writes_before_products() {}
inline void begin_products() {}
inline void commit_products() {}
inline void wait_for_products() {}

}  // namespace lockstep::ops::cuda
