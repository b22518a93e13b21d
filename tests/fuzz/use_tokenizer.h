#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/tokenizer.h"

namespace lockstep::fuzz {

inline std::vector<std::int32_t> encoded(const data::Tokenizer& tokenizer, std::string_view text, bool goes_on = false) {
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(tokenizer.encode(text, ids, unknown, goes_on));
  return ids;
}

/// Encodes a text of everything, whole and in pieces, and decodes it.
inline void use(const data::Tokenizer& tokenizer) {
  const std::string text =
      "It's 12,345 na\xC3\xAFve\n\n words: \xE6\x97\xA5\xE6\x9C\xAC e\xCC\x81\t<|endoftext|> abcabc\nab c  <x>";
  const std::vector<std::int32_t> ids = encoded(tokenizer, text);
  ensure(tokenizer.end_of_text().value_or(0) < tokenizer.vocabulary(), "the end of a text is a token");
  tokenizer.decode(ids);
  for (std::size_t cut = tokenizer.boundary(text, 1); cut < text.size(); cut = tokenizer.boundary(text, cut + 1)) {
    std::vector<std::int32_t> parts = encoded(tokenizer, std::string_view(text).substr(0, cut));
    const std::vector<std::int32_t> rest = encoded(tokenizer, std::string_view(text).substr(cut), true);
    parts.insert(parts.end(), rest.begin(), rest.end());
    ensure(parts == ids, "pieces have the ids of the whole");
  }
}

}  // namespace lockstep::fuzz
