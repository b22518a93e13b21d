#pragma once

// bfloat16 as CUDA's header has it, as far as kernels use it.

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  std::uint16_t bits;
};

constexpr float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
/// To the nearest, ties to even; a NaN becomes 0x7fff.
constexpr __nv_bfloat16 __float2bfloat16_rn(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {0x7fff};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}
constexpr unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
constexpr __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
