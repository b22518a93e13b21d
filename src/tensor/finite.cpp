#include "tensor/finite.h"

#include <cstdint>
#include <cstring>

namespace lockstep {
namespace {

// Whether no exponent is all ones, which are infinities and what is no number. Without a way out in the middle, so that it takes
// vectors at a time.
template <class Bits>
bool none_has(std::span<const std::byte> bytes, Bits exponent) {
  Bits found = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    found = static_cast<Bits>(found | ((bits & exponent) == exponent ? 1 : 0));
  }
  return found == 0;
}

}  // namespace

bool all_finite(std::span<const std::byte> bytes, DType type) {
  return type == DType::bf16 ? none_has<std::uint16_t>(bytes, 0x7f80) : none_has<std::uint32_t>(bytes, 0x7f800000);
}

bool all_finite_halves(std::span<const std::byte> bytes) { return none_has<std::uint16_t>(bytes, 0x7c00); }

bool all_finite(const Tensor& values) { return all_finite(elements<std::byte>(values), values.dtype); }

}  // namespace lockstep
