#include "checkpoint/huggingface/elements.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/bfloat16.h"

namespace lockstep::checkpoint::huggingface {
namespace {

template <class T>
void widen_as(std::span<const std::byte> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from.data() + i * sizeof(bits), sizeof(bits));
    to[i] = to_float(static_cast<T>(bits));
  }
}

template <auto convert>
bool round_as(std::span<const float> from, std::span<std::byte> to) {
  bool finite = true;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto rounded = convert(from[i]);
    finite = finite && (!std::isfinite(from[i]) || std::isfinite(to_float(rounded)));
    const auto bits = static_cast<std::uint16_t>(rounded);
    std::memcpy(to.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
  return finite;
}

}  // namespace

std::optional<ElementType> element_type(std::string_view name) {
  if (name == "F32") return ElementType::f32;
  if (name == "F16") return ElementType::f16;
  if (name == "BF16") return ElementType::bf16;
  return std::nullopt;
}

std::string_view safetensors_name(ElementType type) {
  return type == ElementType::f32 ? "F32" : type == ElementType::f16 ? "F16" : "BF16";
}

std::size_t size_of(ElementType type) { return type == ElementType::f32 ? 4 : 2; }

void widen(std::span<const std::byte> from, ElementType type, std::span<float> to) {
  ensure(from.size() == to.size() * size_of(type), "the bytes are those of the elements");
  switch (type) {
    case ElementType::f32:
      if (!to.empty()) std::memcpy(to.data(), from.data(), from.size());
      return;
    case ElementType::f16:
      return widen_as<Float16>(from, to);
    case ElementType::bf16:
      return widen_as<BFloat16>(from, to);
  }
}

bool round_to(std::span<const float> from, ElementType type, std::span<std::byte> to) {
  ensure(to.size() == from.size() * size_of(type), "the bytes are those of the elements");
  switch (type) {
    case ElementType::f32:
      if (!from.empty()) std::memcpy(to.data(), from.data(), to.size());
      return true;
    case ElementType::f16:
      return round_as<to_float16>(from, to);
    case ElementType::bf16:
      return round_as<to_bfloat16>(from, to);
  }
  return true;
}

}  // namespace lockstep::checkpoint::huggingface
