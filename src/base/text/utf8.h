#pragma once

// UTF-8, one code point at a time. Strict: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;  ///< bytes; 0: not valid here
};

/// A byte that continues a code point; every other byte starts one.
constexpr bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// U+FEFF, with which some programs begin a file.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
/// A file's text behind the byte order mark, if it has one.
constexpr std::string_view without_mark(std::string_view text) {
  return text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text;
}

/// The code point that starts at text[at], at < text.size().
CodePoint code_point_at(std::string_view text, std::size_t at);

/// Appends a valid code point.
void append_utf8(std::string& text, char32_t value);

/// Offset of the first byte that is not valid UTF-8, npos when all are.
std::size_t invalid_utf8_at(std::string_view text);

}  // namespace lockstep
