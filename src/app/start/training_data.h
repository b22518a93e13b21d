#pragma once

// What a rank trains on and is measured with: its batches of the training text, and windows of both texts for evaluation.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "app/settings/run_config.h"
#include "app/start/session.h"
#include "base/log.h"
#include "data/batch_source.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "train/engine_config.h"

namespace lockstep::app {

/// Steps of a run whose epochs have `per_epoch` steps. Throws UserError where 64 bits do not count them.
std::int64_t steps_of(const RunConfig& config, std::int64_t per_epoch);

class TrainingData {
 public:
  /// `corpus` has what this rank reads of data_folder(config). It and `group`, the ranks that share the samples of a step,
  /// outlive this. Collective over `group`. Throws UserError for settings that these ranks or files cannot serve.
  TrainingData(const RunConfig& config, const train::EngineConfig& settings, const data::Corpus& corpus, const Session& session,
               comm::Communicator& group, Log& log);
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  void declare(Arena& arena);
  /// Bytes that declare() will declare, for a text that may not be there yet.
  static std::int64_t bytes(const RunConfig& config, const train::EngineConfig& settings, const Session& session,
                            const comm::Communicator& group);
  /// Where samples are pairs: the reference's log-probability of each window's targets, for both texts. It is filled in before
  /// the first batch. Null otherwise.
  struct References {
    std::shared_ptr<std::vector<double>> train, val;
  };
  const References& references() const { return references_; }
  /// Steps of an epoch of this rank's text; shards may differ by a window.
  std::int64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }
  data::BatchSource& batches() { return *batches_; }
  data::WindowSource& train_windows() { return *train_windows_; }
  data::WindowSource& val_windows() { return *val_windows_; }

 private:
  std::optional<data::TokenFile> own_;  ///< empty: the corpus's
  const data::TokenFile& text_;
  References references_;
  data::Sampler sampler_;
  std::unique_ptr<comm::Communicator> sharers_;  ///< of a reader; null: each rank reads for itself
  std::unique_ptr<data::BatchSource> batches_;
  std::unique_ptr<data::WindowSource> train_windows_, val_windows_;
};

}  // namespace lockstep::app
