#pragma once

// SentencePiece's BPE in a GGUF file ("tokenizer.ggml.model" is "llama"), both ways. The file has no list of merges: llama.cpp
// merges the neighbours whose text is the token of the highest score (src/llama-vocab.cpp, llm_tokenizer_spm_session). So a
// tokenizer.json is written only where its merges are those of scores.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace lockstep::data {

inline constexpr std::string_view sentencepiece_model = "llama";

/// gguf-py's TokenType.
namespace gguf_token {
inline constexpr std::int64_t normal = 1, unknown = 2, control = 3, user = 4, unused = 5, byte = 6;
}

/// The lists of a file, and whether a text gets a blank before it.
struct SentencePieceLists {
  Json::Array tokens, types, scores;
  bool blank_before = false;
};

/// The lists of a tokenizer.json whose ids are below `vocabulary`; nothing where llama.cpp would give other ids.
std::optional<SentencePieceLists> sentencepiece_lists(const Json& tokenizer, std::int64_t vocabulary);

/// The tokenizer.json that the lists mean, with the merges that transformers makes of scores (convert_slow_tokenizer.py,
/// generate_merges). `post_processor`: null, or what begins texts. Throws UserError, naming `what`, for damaged lists.
Json sentencepiece_json(const SentencePieceLists& lists, const Json& post_processor, const std::string& what);

}  // namespace lockstep::data
