#pragma once

// A trained model from a run's or checkpoint's folder, ready to read text: what `generate` and `eval` share.

#include <memory>
#include <string>

#include "app/session.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "data/tokenizer.h"
#include "train/inference.h"

namespace lockstep::app {

struct LoadedModel {
  checkpoint::Manifest manifest;
  std::string folder;                          ///< of the checkpoint
  std::unique_ptr<data::Tokenizer> tokenizer;  ///< null when the model was trained on ids without description
  std::unique_ptr<train::Inference> inference;
};

/// `which`: best, last or a step. Throws UserError for a folder without checkpoint, a damaged one, another program's.
LoadedModel load_model(const std::string& path, const std::string& which, Session& session, Log& log);

}  // namespace lockstep::app
