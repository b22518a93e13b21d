#pragma once

// Element types of published weights, and their conversion from and to float.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::checkpoint::huggingface {

enum class ElementType : std::uint8_t { f32, f16, bf16 };

/// The types of the safetensors names "F32", "F16" and "BF16"; nothing for another.
std::optional<ElementType> element_type(std::string_view safetensors_name);
std::string_view safetensors_name(ElementType type);
std::size_t size_of(ElementType type);

/// Exact. `from` has the bytes of to.size() elements.
void widen(std::span<const std::byte> from, ElementType type, std::span<float> to);
/// To the nearest, ties to even. `to` has room for from.size() elements. Whether every finite value is still finite.
[[nodiscard]] bool round_to(std::span<const float> from, ElementType type, std::span<std::byte> to);

}  // namespace lockstep::checkpoint::huggingface
