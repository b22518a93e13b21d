#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep {

/// A letter of ASCII in lower case; other bytes stay.
constexpr char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte; }

inline std::string lower(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(), [](char byte) { return lower(byte); });
  return low;
}

}  // namespace lockstep
