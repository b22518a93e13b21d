#pragma once

#include <string_view>

namespace lockstep {

/// The text without blanks, tabs and line breaks at its ends.
constexpr std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

}  // namespace lockstep
