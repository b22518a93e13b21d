#pragma once

// How numbers look to people.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

std::string format_count(std::int64_t n);       ///< 1234567 -> "1,234,567"
std::string format_bytes(std::uint64_t bytes);  ///< 1610612736 -> "1.50 GiB"
/// "4GiB", "1.5 GB", "800M", "4096": KiB and K are 1024 bytes, kB 1000, and so on. Nothing for another text, or over 2^62.
std::optional<std::uint64_t> bytes_from(std::string_view text);
std::string format_seconds(double seconds);  ///< 0.0031 -> "3.1 ms", 75 -> "1m 15s"
std::string format_si(double value);         ///< 12345678 -> "12.3 M"

}  // namespace lockstep
