#pragma once

// The tokenizer of a BPE or a Unigram.

#include <memory>
#include <string>

#include "data/bpe/model.h"
#include "data/tokenizer.h"

namespace lockstep::data::bpe {

/// What a text's own "<|endoftext|>" is: one token, as in Hugging Face's library, or the characters that it is written with, as
/// in tiktoken's encode_ordinary.
enum class AddedTokens : std::uint8_t { found, ordinary };

/// Tokenizer::describe()'s member with the end of a document where another one was told than the usual one.
inline constexpr const char* told_end = "end_of_text";

/// `json` is the tokenizer.json that the model is stored as.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(Model model, std::string json, AddedTokens added);

}  // namespace lockstep::data::bpe
