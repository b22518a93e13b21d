#pragma once

// A published model has more than weights: a tokenizer, tokens that begin and end a text, and small files that say how texts are
// written. A checkpoint keeps these in its manifest's `run`:
// - "tokenizer"
// - "document_end": the token that ends the documents that were taught
// - "turn_end": the token that ends the assistant's turns that were taught
// - "huggingface", for a published model: members of its config.json by their names ("eos_token_id"), and "files", which are
//   other files by name, as they were

#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "checkpoint/huggingface/export.h"
#include "checkpoint/huggingface/folder.h"
#include "data/chat/model_texts.h"
#include "data/token_description.h"
#include "data/tokenizer.h"

namespace lockstep::app {

inline constexpr const char* published_key = "huggingface";
inline constexpr const char* published_texts = "files";
inline constexpr const char *document_end_key = "document_end", *turn_end_key = "turn_end";
inline constexpr const char* generation_file = "generation_config.json";

/// The member "huggingface" of a published folder or GGUF file; null where there is nothing to keep. Files are not parsed.
/// Throws UserError for a file that cannot be read or is no text.
Json published_facts(const checkpoint::huggingface::Folder& folder);

/// The facts that a run keeps when it goes on from those weights with a text of its own. `source` is the model's tokenizer,
/// `text` the run's, which has the same tokens; either may be null. The files of another tokenizer.json are not kept.
Json kept_facts(Json facts, const data::Tokenizer* source, const data::Tokenizer* text);

/// Puts the template that a run's conversations were written with in the place of the model's own, where they differ.
void keep_template(Json& facts, const data::ChatFacts& chats);

/// Those of the published model's files that say its chat template and special tokens, by a manifest's `run`. `where` is how
/// messages call the run.
data::ModelTexts kept_texts(const Json& run, std::string where);

/// What a checkpoint of the published model carries in its manifest's `run`. Warns when its tokenizer cannot be read.
Json carried_from(const checkpoint::huggingface::Folder& folder, Log& log);

/// What the folder of a model gets beside the weights, by a manifest's `run`.
checkpoint::huggingface::ExportOptions published_extras(const Json& run);

}  // namespace lockstep::app
