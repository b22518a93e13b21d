#pragma once

// CRC-32C (Castagnoli), which the records of other programs' files carry.

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::io {

std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace lockstep::io
