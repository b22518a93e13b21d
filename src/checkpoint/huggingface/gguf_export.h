#pragma once

// A model as a GGUF file, which llama.cpp and Ollama load.

#include <optional>

#include "base/json.h"
#include "checkpoint/huggingface/elements.h"
#include "checkpoint/huggingface/export.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/reader.h"

namespace lockstep::checkpoint::huggingface {

struct GgufOptions {
  std::optional<ElementType> type = {};  ///< type of matrices; none: what the model is stored in
  Json pairs = Json::Object{};           ///< further pairs, beside those that say what the model is
  Json facts = Json::Object{};           ///< members of the published model's config.json (keep_positions)
};

/// Writes a file that is not there yet. Vectors and learned positions stay F32, as llama.cpp has them; where a row is no multiple
/// of 32, q8_0 becomes F16. Some MiB of memory a thread, however large the model; what throws leaves nothing behind. Throws
/// UserError: the file is there, an architecture that is not known, a weight that the type cannot hold, a damaged model.
ExportReport export_gguf(const Reader& reader, const io::Path& path, const GgufOptions& options, Team& team);
ExportReport export_gguf(const Weights& weights, const io::Path& path, const GgufOptions& options, Team& team);

}  // namespace lockstep::checkpoint::huggingface
