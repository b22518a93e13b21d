#pragma once

// A trained model from a run's, a checkpoint's or a Hugging Face model's folder, ready to read text: what `generate` and `eval`
// share.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/start/session.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "data/tokenizer.h"
#include "train/inference.h"

namespace lockstep::app {

/// `--dtype` of commands that load a model: as it was stored, or a spelling of a type.
inline constexpr std::string_view stored_dtype = "stored";
std::vector<std::string> dtype_choices();
/// None for stored_dtype.
std::optional<DType> chosen_dtype(const std::string& choice);

struct LoadedModel {
  checkpoint::Manifest manifest;               ///< of another program's model `run` alone, as a checkpoint of it would carry it
  std::string folder;                          ///< of the checkpoint
  std::unique_ptr<data::Tokenizer> tokenizer;  ///< null when there is none
  std::string no_tokenizer;                    ///< then: why
  std::unique_ptr<parallel::Groups> groups;    ///< of the ranks that read it together
  std::unique_ptr<ops::Ops> ops;               ///< that add bf16 products as the model was trained
  std::unique_ptr<train::Inference> inference;
};

/// What a model is loaded for.
struct ReadingNeeds {
  std::optional<DType> type;            ///< of weights and activations; none: as it was trained, fp32 for a published model
  std::optional<std::int64_t> context;  ///< the longest text that will be read at a time, for which no more than needed is set up
  std::int64_t tp = 1;                  ///< ranks that together have one copy of the model
  std::int64_t pp = 1;                  ///< ranks, or groups of tp, that divide the layers of a model
};
/// `which` checkpoint of a run: best, last or a step; rank 0 chooses. Throws UserError for a folder without a model and a damaged
/// one. Collective over the session's ranks, which read it together.
LoadedModel load_model(const std::string& path, const std::string& which, const ReadingNeeds& needs, Session& session, Log& log);

}  // namespace lockstep::app
