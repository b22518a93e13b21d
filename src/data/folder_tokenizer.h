#pragma once

// The tokenizer.json of a published model's folder, put together from all files that say something about its tokens.

#include <optional>

#include "base/json.h"
#include "io/file.h"

namespace lockstep::data {

/// tokenizer.json as transformers completes it (tokenization_utils_tokenizers.py, TokenizersBackend). Tokens that stand in
/// tokenizer_config.json or special_tokens_map.json alone are added tokens, too. Where tokenizer.json is missing, vocab.json and
/// merges.txt are read as the tokenizer's class reads them: GPT-2's or Qwen2's. Returns nothing for a folder without such files.
/// Throws UserError for files that are damaged, and for another class without a tokenizer.json.
std::optional<Json> tokenizer_json_of(const io::Path& folder);
/// The same for a tokenizer.json that is named by itself: what lies beside it completes it.
Json tokenizer_json_at(const io::Path& file);

}  // namespace lockstep::data
