#pragma once

// bfloat16 as it is stored: the upper half of an fp32 (8 bits of exponent, 7 of fraction).

#include <bit>
#include <cstdint>

namespace lockstep {

enum class BFloat16 : std::uint16_t {};

constexpr float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16U); }

/// Rounds to the nearest, ties to even; NaN stays NaN.
constexpr BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<BFloat16>(bits >> 16U | 0x40U);
  return static_cast<BFloat16>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

/// Rounds the size up with the probability of its distance from the lower neighbour. `random` is in [0, 2^16). NaN stays NaN.
constexpr BFloat16 to_bfloat16_by(float x, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return to_bfloat16(x);
  return static_cast<BFloat16>((bits + random) >> 16U);
}

/// An fp32 in two halves, which together have all its bits. `high` is the nearest bf16, with ties away from zero. `low` has the
/// bits below, by which the number is smaller or larger. (Ties to even would need one bit more.)
struct Halves {
  BFloat16 high;
  std::uint16_t low;
};

/// Splits an fp32. NaN stays NaN, maybe another one. A model that computes in bf16 reads the upper half of an fp32 weight.
constexpr Halves to_halves(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto low = static_cast<std::uint16_t>(bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<BFloat16>(bits >> 16U | 0x40U), low};
  return {static_cast<BFloat16>((bits + 0x8000U) >> 16U), low};
}

constexpr float from_halves(const Halves& x) {
  const auto difference = static_cast<std::int32_t>(static_cast<std::int16_t>(x.low));
  return std::bit_cast<float>((static_cast<std::uint32_t>(x.high) << 16U) + static_cast<std::uint32_t>(difference));
}

}  // namespace lockstep
