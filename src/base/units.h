#pragma once

// How numbers look to people.

#include <cstdint>
#include <string>

namespace lockstep {

std::string format_count(std::int64_t n);       ///< 1234567 -> "1,234,567"
std::string format_bytes(std::uint64_t bytes);  ///< 1610612736 -> "1.50 GiB"
std::string format_seconds(double seconds);     ///< 0.0031 -> "3.1 ms", 75 -> "1m 15s"
std::string format_si(double value);            ///< 12345678 -> "12.3 M"

}  // namespace lockstep
