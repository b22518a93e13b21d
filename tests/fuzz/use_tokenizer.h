#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/tokenizer.h"

namespace lockstep::fuzz {

/// Encodes a text of everything and decodes it.
inline void use(const data::Tokenizer& tokenizer) {
  const std::string text = "It's 12,345 na\xC3\xAFve\n\n words: \xE6\x97\xA5\xE6\x9C\xAC e\xCC\x81\t<|endoftext|> abcabc";
  std::vector<std::int32_t> ids(tokenizer.room(text.size()));
  std::string unknown;
  ids.resize(tokenizer.encode(text, ids, unknown));
  ensure(tokenizer.end_of_text().value_or(0) < tokenizer.vocabulary(), "the end of a text is a token");
  tokenizer.decode(ids);
}

}  // namespace lockstep::fuzz
