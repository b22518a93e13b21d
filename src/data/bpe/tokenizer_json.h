#pragma once

// Hugging Face's tokenizer.json, as far as it holds a BPE or a Unigram.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "data/bpe/model.h"
#include "data/bpe/words.h"

namespace lockstep::data::bpe {

/// Reads the tokenizer.json of GPT-2, Llama, Gemma and their like. It is a BPE of bytes or of characters or a Unigram, with the
/// steps of rules.h and added tokens. Throws UserError, naming `what`, for another kind of tokenizer (by its name), and for
/// merges that contradict the vocabulary. Unknown parts that would change ids are refused, too.
Model model_from_json(const Json& json, const std::string& what);

/// The tokenizer.json of a byte-level model that a pattern of words.h splits; Hugging Face's library reads it.
Json to_json(const Model& model);

/// The step that turns text into the byte alphabet. `prefix`: a blank is put before what has none.
Json byte_level_json(bool use_regex, bool prefix = false);
/// The steps that split by a pattern, and end with that one.
Json pre_tokenizer_json(Pattern pattern, bool prefix = false);
/// The post-processor that puts a token before each text.
Json begins_with_json(const std::string& token, std::int64_t id);

/// The "model" member of such a file. `vocabulary` maps texts in the byte alphabet to ids; `merges` are "LEFT RIGHT" each.
Json bpe_json(Json::Object vocabulary, Json::Array merges, bool ignore_merges);

}  // namespace lockstep::data::bpe
