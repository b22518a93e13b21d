#pragma once

// What a published model has beside its weights, and a checkpoint in its manifest: the tokenizer, and which tokens begin and end
// a text.

#include "base/json.h"
#include "base/log.h"
#include "checkpoint/huggingface/export.h"
#include "checkpoint/huggingface/folder.h"

namespace lockstep::app {

/// What a checkpoint of the published model carries in its manifest's `run`. Warns when its tokenizer cannot be read.
Json carried_from(const checkpoint::huggingface::Folder& folder, Log& log);

/// What the folder of a checkpoint's model gets beside the weights. Warns when its tokenizer has no such form.
checkpoint::huggingface::ExportOptions published_extras(const checkpoint::Manifest& manifest, Log& log);

}  // namespace lockstep::app
