#pragma once

// What a user names a tokenizer by.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "data/chat/model_texts.h"
#include "data/tokenizer.h"
#include "io/file.h"

namespace lockstep::data {

struct TokenizerChoice {
  enum class Kind : std::uint8_t {
    characters,  ///< "char": the vocabulary comes from the text
    bytes,       ///< "byte"
    gpt2,        ///< "gpt2:FOLDER": encoder.json and vocab.bpe
    hf,          ///< "hf:FILE": a tokenizer.json, or the folder of one
    trained      ///< "bpe:SIZE": a BPE of so many tokens, trained on the text
  };
  Kind kind = Kind::characters;
  std::string path = {};        ///< path of gpt2 and hf
  std::int64_t vocabulary = 0;  ///< the most tokens that a trained one may have
  Json described = {};          ///< hf: Tokenizer::describe() of one at hand. `path` is the folder that has it, or empty.
  ModelTexts texts = {};        ///< with `described`: those of its model
};

/// Throws UserError for a name that is not known, lacks its path or has a size that cannot be.
TokenizerChoice tokenizer_choice(std::string_view name);

/// Reads the files of the choice; null when the vocabulary comes from the text. Throws UserError.
std::unique_ptr<Tokenizer> load_tokenizer(const TokenizerChoice& choice);

struct PublishedTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;  ///< null when there is none that can be read
  std::string fault;                     ///< why there is none
};

/// The tokenizer of a published model. A GGUF file has its own. A folder has tokenizer.json, or vocab.json and merges.txt, and
/// other files complete it (folder_tokenizer.h).
PublishedTokenizer find_published_tokenizer(const io::Path& folder);

}  // namespace lockstep::data
