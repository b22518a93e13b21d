#pragma once

// What a GGUF file has beside the weights, and the Modelfile with which Ollama takes it.

#include <string>

#include "arch/config.h"
#include "base/json.h"
#include "base/log.h"

namespace lockstep::app {

struct GgufFiles {
  Json pairs;             ///< the file's tokenizer, its special tokens and its chat template
  std::string modelfile;  ///< behind its line FROM
  Json facts;             ///< of the published model, for its config.json
};

/// What the file has, by a manifest's `run` (published_files.h). Warns where llama.cpp does not have the tokenizer, or computes
/// something else.
GgufFiles gguf_files(const Json& run, const arch::ModelConfig& config, Log& log);

}  // namespace lockstep::app
