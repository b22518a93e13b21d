#pragma once

// The tokenizer that is in a GGUF file, both ways: the keys "tokenizer.ggml.*", as gguf-py 0.19 names them (gguf/constants.py)
// and llama.cpp reads them (src/llama-vocab.cpp).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/tokenizer.h"

namespace lockstep::data {

/// The keys with which llama.cpp gives the same ids in a model that knows the ids below `vocabulary`. Throws UserError for a
/// tokenizer that it does not have.
Json gguf_of_tokenizer(const Tokenizer& tokenizer, std::int64_t vocabulary);

/// What the tokenizer does and llama.cpp cannot be told: sentences for the user.
std::vector<std::string> lost_in_gguf(const Tokenizer& tokenizer);

/// The tokenizer that those keys describe. Throws UserError, naming `what`, for another kind than a byte-level BPE or characters.
std::unique_ptr<Tokenizer> tokenizer_of_gguf(const Json& pairs, const std::string& what);

}  // namespace lockstep::data
