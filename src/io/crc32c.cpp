#include "io/crc32c.h"

#include <array>

namespace lockstep::io {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78;  // 0x1EDC6F41, its bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
    table[byte] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t value = 0xFFFFFFFF;
  for (const std::byte byte : bytes) value = (value >> 8) ^ table[(value ^ static_cast<std::uint32_t>(byte)) & 0xFF];
  return ~value;
}

}  // namespace lockstep::io
