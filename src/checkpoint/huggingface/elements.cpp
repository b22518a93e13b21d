#include "checkpoint/huggingface/elements.h"

#include <algorithm>
#include <array>
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

constexpr std::size_t q8_elements = 32, q8_bytes = sizeof(Float16) + q8_elements;

void widen_q8(std::span<const std::byte> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); i += q8_elements, from = from.subspan(q8_bytes)) {
    Float16 scale{};
    std::memcpy(&scale, from.data(), sizeof(scale));
    for (std::size_t j = 0; j < q8_elements; ++j)
      to[i + j] = to_float(scale) * static_cast<float>(static_cast<std::int8_t>(from[sizeof(scale) + j]));
  }
}

bool round_q8(std::span<const float> from, std::span<std::byte> to) {
  bool finite = true;
  for (; !from.empty(); from = from.subspan(q8_elements), to = to.subspan(q8_bytes)) {
    float largest = 0;
    for (std::size_t j = 0; j < q8_elements; ++j) largest = std::max(largest, std::fabs(from[j]));
    const float scale = largest / 127;
    const float inverse = scale > 0 && std::isfinite(1 / scale) ? 1 / scale : 0;
    const Float16 stored = to_float16(scale);
    finite = finite && std::isfinite(to_float(stored));
    std::memcpy(to.data(), &stored, sizeof(stored));
    for (std::size_t j = 0; j < q8_elements; ++j)
      to[sizeof(stored) + j] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(from[j] * inverse)));
  }
  return finite;
}

struct Form {
  std::string_view name;
  std::size_t block, bytes;
};
constexpr std::array<Form, 4> forms{{{"F32", 1, 4}, {"F16", 1, 2}, {"BF16", 1, 2}, {"Q8_0", q8_elements, q8_bytes}}};
const Form& form_of(ElementType type) { return forms[static_cast<std::size_t>(type)]; }

}  // namespace

std::optional<ElementType> element_type(std::string_view name) {
  const auto* const found = std::ranges::find(forms, name, &Form::name);
  return found == forms.end() ? std::nullopt : std::optional(static_cast<ElementType>(found - forms.begin()));
}

std::string_view stored_name(ElementType type) { return form_of(type).name; }

std::size_t block_of(ElementType type) { return form_of(type).block; }

std::size_t bytes_of(ElementType type, std::size_t elements) {
  ensure(elements % block_of(type) == 0, "elements are stored in whole blocks");
  return elements / block_of(type) * form_of(type).bytes;
}

void widen(std::span<const std::byte> from, ElementType type, std::span<float> to) {
  ensure(from.size() == bytes_of(type, to.size()), "the bytes are those of the elements");
  switch (type) {
    case ElementType::f32:
      if (!to.empty()) std::memcpy(to.data(), from.data(), from.size());
      return;
    case ElementType::f16:
      return widen_as<Float16>(from, to);
    case ElementType::bf16:
      return widen_as<BFloat16>(from, to);
    case ElementType::q8_0:
      return widen_q8(from, to);
  }
}

bool round_to(std::span<const float> from, ElementType type, std::span<std::byte> to) {
  ensure(to.size() == bytes_of(type, from.size()), "the bytes are those of the elements");
  switch (type) {
    case ElementType::f32:
      if (!from.empty()) std::memcpy(to.data(), from.data(), to.size());
      return true;
    case ElementType::f16:
      return round_as<to_float16>(from, to);
    case ElementType::bf16:
      return round_as<to_bfloat16>(from, to);
    case ElementType::q8_0:
      return round_q8(from, to);
  }
  return true;
}

}  // namespace lockstep::checkpoint::huggingface
