#pragma once

// The tokenizer.json of a published model's folder, put together from all files that say something about its tokens.

#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "data/chat/model_texts.h"
#include "io/file.h"

namespace lockstep::data {

struct TokenizerFiles {
  io::Path folder;
  std::map<std::string, std::string> texts;  ///< by the names of their files; any may be missing
  ModelTexts config;                         ///< tokenizer_config.json and special_tokens_map.json

  const std::string* find(const std::string& name) const {
    const auto found = texts.find(name);
    return found != texts.end() ? &found->second : nullptr;
  }
  /// Reads a file of the folder where there is one.
  void read(const char* name);
};

/// Reads the files. A failure of the system is thrown, as a file that cannot be read is another thing than none.
TokenizerFiles read_tokenizer_files(const io::Path& folder);

/// tokenizer.json as transformers completes it (tokenization_utils_tokenizers.py, TokenizersBackend). Tokens that stand in
/// tokenizer_config.json, special_tokens_map.json or added_tokens.json alone are added tokens, too. Those of no vocabulary get
/// ids behind it, for which a model need not have rows. Where tokenizer.json is missing, vocab.json and merges.txt are read as
/// the tokenizer's class reads them: GPT-2's or Qwen2's. Returns nothing for a folder without such files. Throws UserError for
/// files that are damaged, and for another class without a tokenizer.json.
std::optional<Json> tokenizer_json_of(const TokenizerFiles& files);
/// The same for a tokenizer.json that is named by itself: what lies beside it completes it.
Json tokenizer_json_at(const io::Path& file);
/// How a folder without a tokenizer.json gets one: a remedy.
std::string make_tokenizer_json(const std::string& folder);

}  // namespace lockstep::data
