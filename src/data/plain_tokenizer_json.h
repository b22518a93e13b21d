#pragma once

// The tokenizers of characters and of bytes as Hugging Face's tokenizer.json, with the same ids. A model of words (WordLevel)
// whose words are characters says the first, a BPE over bytes without merges the second.

#include <memory>
#include <string_view>

#include "base/json.h"
#include "data/tokenizer.h"

namespace lockstep::data {

/// A tokenizer of these characters, in the order of their ids. A text with another character is an error there.
Json char_tokenizer_json(std::string_view characters);
Json byte_tokenizer_json();

/// The tokenizer of such a file; null when it is of another kind.
std::unique_ptr<Tokenizer> plain_tokenizer(const Json& json);

}  // namespace lockstep::data
