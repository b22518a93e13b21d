#pragma once

// Numbers that people type.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace lockstep {

/// All of `text` as a number of the type; nothing for another text, or one beyond the type.
template <class T>
std::optional<T> number_from(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep
