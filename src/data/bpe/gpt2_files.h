#pragma once

// The two files that OpenAI published GPT-2's vocabulary in.

#include <string>
#include <string_view>

#include "data/bpe/model.h"
#include "io/file.h"

namespace lockstep::data::bpe {

inline constexpr std::string_view gpt2_end_of_text = "<|endoftext|>";

/// What a file holds, and its name for messages.
struct TextOfFile {
  std::string name;
  std::string_view text;
};
/// The model that a vocabulary and its merges make. Throws UserError where they are damaged or contradict each other.
Model model_of_gpt2(const TextOfFile& vocabulary, const TextOfFile& merges);

/// The model in a folder with encoder.json (or vocab.json) and vocab.bpe (or merges.txt). Throws UserError for a missing or
/// damaged file, and for merges that contradict the vocabulary.
Model read_gpt2_files(const io::Path& folder);

}  // namespace lockstep::data::bpe
