#pragma once

// A trained model from a run's, a checkpoint's or a Hugging Face model's folder, ready to read text: what `generate` and `eval`
// share.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "app/session.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "data/tokenizer.h"
#include "train/inference.h"

namespace lockstep::app {

struct LoadedModel {
  checkpoint::Manifest manifest;               ///< empty for another program's model
  std::string folder;                          ///< of the checkpoint
  std::unique_ptr<data::Tokenizer> tokenizer;  ///< null when there is none
  std::string no_tokenizer;                    ///< then: why
  std::unique_ptr<train::Inference> inference;
};

/// `which` checkpoint of a run: best, last or a step. `context`: the longest text that will be read at a time, for which no more
/// than needed is set up. Throws UserError for a folder without a model and a damaged one.
LoadedModel load_model(const std::string& path, const std::string& which, std::optional<std::int64_t> context, Session& session,
                       Log& log);

}  // namespace lockstep::app
