#pragma once

// What kind of character stands at a place of a text that need not be valid UTF-8.

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::data::bpe {

enum class Kind : std::uint8_t { other, letter, number, space };

struct Character {
  Kind kind = Kind::other;
  std::size_t length = 1;  ///< bytes; a byte that is not valid UTF-8 is a character of its own, of kind other
};

class Characters {
 public:
  Characters();
  /// The character that starts at text[at], at < text.size().
  Character at(std::string_view text, std::size_t at) const {
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte < 0x80 ? Character{kinds_[byte], 1} : wide(text, at);
  }
  /// The end of the run of `kind` from `at` on.
  std::size_t run(std::string_view text, std::size_t at, Kind kind) const {
    while (at < text.size()) {
      const Character next = this->at(text, at);
      if (next.kind != kind) break;
      at += next.length;
    }
    return at;
  }

 private:
  Character wide(std::string_view text, std::size_t at) const;
  std::vector<Kind> kinds_;  // by code point
};

}  // namespace lockstep::data::bpe
