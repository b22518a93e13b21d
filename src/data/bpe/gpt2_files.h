#pragma once

// The two files that OpenAI published GPT-2's vocabulary in.

#include "data/bpe/model.h"
#include "io/file.h"

namespace lockstep::data::bpe {

/// Of a folder with encoder.json (or vocab.json) and vocab.bpe (or merges.txt). Throws UserError for a missing or damaged file,
/// and for merges that contradict the vocabulary.
Model read_gpt2_files(const io::Path& folder);

}  // namespace lockstep::data::bpe
