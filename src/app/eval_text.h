#pragma once

// A text that is evaluated as it is: its tokens are those of the model's own tokenizer.

#include <string>

#include "app/loaded_model.h"
#include "data/corpus.h"

namespace lockstep::app {

/// Whether the file is text, as people store it, and no token file.
bool is_plain_text(const std::string& path);

/// All of a text's tokens, in memory. Throws UserError for a model without a tokenizer, for rows of documents, and for characters
/// that the tokenizer does not have. `model` is what the user calls the model.
data::TokenText tokenise(const std::string& path, const LoadedModel& loaded, const std::string& model);

}  // namespace lockstep::app
