#pragma once

// Where the characters that a user sees end: extended grapheme clusters (Unicode Standard Annex 29, rules GB3 to GB13). Rule GB9c
// is left out: it joins no clusters of less than six bytes.

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::data::normal {

class Graphemes {
 public:
  Graphemes();
  /// The end of the cluster that starts at text[at], at < text.size(). A byte that is not valid UTF-8 is one by itself.
  std::size_t end(std::string_view text, std::size_t at) const;

 private:
  std::vector<std::uint8_t> kinds_;  // by code point
};

}  // namespace lockstep::data::normal
