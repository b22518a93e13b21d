#pragma once

// A trained model from a run's, a checkpoint's or a Hugging Face model's folder, ready to read text: what `generate` and `eval`
// share.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/start/layout_option.h"
#include "app/start/session.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "data/tokenizer.h"
#include "train/inference.h"

namespace lockstep::app {

/// What the command line says of the model and of the ranks that read it.
struct ModelOptions {
  std::string model, checkpoint = "best", adapter, isa = "auto", dtype = "stored";
  std::int64_t threads = 0;
  LayoutOption layout;

  /// `shared`: what ranks of --ranks share.
  void declare(CommandLine& line, const std::string& shared);
  /// Behind parsing: what is wrong with the layout.
  void read(std::vector<Problem>& problems) { layout.read(problems, {"dp", "tp", "pp", "canonical"}); }
  RankOptions ranks() const;
};

struct LoadedModel {
  checkpoint::Manifest manifest;               ///< a published model's has `run` alone, as a checkpoint of it would carry it
  std::string folder;                          ///< of the checkpoint
  std::unique_ptr<data::Tokenizer> tokenizer;  ///< null when there is none
  std::string no_tokenizer;                    ///< why there is none
  std::unique_ptr<parallel::Groups> groups;    ///< of the ranks that read it together
  std::unique_ptr<ops::Ops> ops;               ///< kernels that add bf16 products as the model was trained
  std::unique_ptr<train::Inference> inference;
};

/// Loads a model for reading at most `context` tokens at a time, and sets up no more than that needs. None: as many tokens as the
/// model can. Rank 0 chooses the checkpoint. Throws UserError for a folder without a model, a damaged one, and a layout that the
/// ranks or the model cannot have. Collective over the session's ranks, which read it together.
LoadedModel load_model(const ModelOptions& options, std::optional<std::int64_t> context, Session& session, Log& log);

}  // namespace lockstep::app
