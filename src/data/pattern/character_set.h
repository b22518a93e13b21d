#pragma once

// A set of code points, and of what is no code point.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/text/utf8.h"

namespace lockstep::data::pattern {

/// Stands for a byte that is not valid UTF-8: a character of its own, which no property has.
inline constexpr char32_t no_character = 0x110000;

/// The character that starts at text[at], at < text.size(): `no_character` of one byte where none does.
inline CodePoint character_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  const CodePoint point = code_point_at(text, at);
  return point.length != 0 ? point : CodePoint{no_character, 1};
}
/// The character that ends before `at`, at > 0.
CodePoint character_before(std::string_view text, std::size_t at);

class CharacterSet {
 public:
  bool has(char32_t point) const { return (bits_[point / 64] >> (point % 64) & 1U) != 0; }
  void add(char32_t first, char32_t last);
  /// Adds a general category, "Lu", or all that begin with a letter, "L". False when there is none.
  bool add_category(std::string_view name);
  void invert();
  CharacterSet& operator|=(const CharacterSet& other);
  CharacterSet& operator&=(const CharacterSet& other);
  bool operator==(const CharacterSet&) const = default;

 private:
  std::vector<std::uint64_t> bits_ = std::vector<std::uint64_t>(no_character / 64 + 1);
};

/// The set of one general category.
CharacterSet category(std::string_view name);
CharacterSet spaces();           ///< \s
CharacterSet word_characters();  ///< \w, by Unicode's rules for regular expressions
/// Adds the other case of letters of ASCII, and the long s and the sign of Kelvin. False: the set has other characters.
bool add_other_case(CharacterSet& set);
/// \w, as Oniguruma has it. Outside brackets it has Latin-1's numbers, which [\w] lacks (regenc.c and unicode.c: a table each).
CharacterSet oniguruma_words(bool bracketed);

}  // namespace lockstep::data::pattern
