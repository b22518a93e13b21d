#pragma once

// Element types of published weights, and their conversion from and to float.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::checkpoint::huggingface {

/// IEEE half precision as it is stored in files: 5 bits of exponent, 10 of fraction. Nothing is computed in it.
enum class Float16 : std::uint16_t {};

inline float to_float(Float16 x) {
  const auto bits = static_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits & 0x8000U) << 16U, exponent = bits >> 10U & 0x1fU, fraction = bits & 0x3ffU;
  std::uint32_t magnitude = (exponent + 112) << 23U | fraction << 13U;
  if (exponent == 0x1f) magnitude = 0x7f800000U | fraction << 13U;
  if (exponent == 0) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F);
  return std::bit_cast<float>(sign | magnitude);
}

/// Rounds to the nearest, ties to even. From 65520 on the result is infinity; NaN stays NaN.
inline Float16 to_float16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16U & 0x8000U, magnitude = bits & 0x7fffffffU;
  const auto made = [sign](std::uint32_t half) { return static_cast<Float16>(sign | half); };
  if (magnitude > 0x7f800000U) return made(0x7e00U | (magnitude >> 13U & 0x3ffU));
  if (magnitude >= 0x477ff000U) return made(0x7c00U);
  if (magnitude >= 0x38800000U) return made((magnitude - 0x38000000U + 0xfffU + (magnitude >> 13U & 1U)) >> 13U);
  // Below 2^-14 halves are multiples of 2^-24, the distance of floats at 0.5: the addition rounds.
  return made(std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U);
}

/// q8_0: whole numbers of 8 bits with a half-precision scale for each block of them, as ggml has it (ggml-quants.c); GGUF alone.
enum class ElementType : std::uint8_t { f32, f16, bf16, q8_0 };

/// The types of the names "F32", "F16", "BF16" (of safetensors and GGUF) and "Q8_0"; nothing for another.
std::optional<ElementType> element_type(std::string_view stored_name);
std::string_view stored_name(ElementType type);
/// Elements that are stored together: 32 for q8_0, else 1.
std::size_t block_of(ElementType type);
/// The bytes that so many elements take; they are whole blocks.
std::size_t bytes_of(ElementType type, std::size_t elements);

/// Converts to float, exactly. `from` has the bytes of to.size() elements, whole blocks of them.
void widen(std::span<const std::byte> from, ElementType type, std::span<float> to);
/// Rounds to the nearest, ties to even (q8_0: away from zero, as ggml's ggml_quantize_chunk() has it). `to` has room for
/// from.size() elements, whole blocks of them. Returns whether every finite value is still finite.
[[nodiscard]] bool round_to(std::span<const float> from, ElementType type, std::span<std::byte> to);

}  // namespace lockstep::checkpoint::huggingface
