#pragma once

// A training that may be started again: its words, checked before any rank starts, and what changes for a retry.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "base/error.h"

namespace lockstep::launch {

struct RestartFacts {
  bool again = false;                      ///< it may be tried again
  std::string generated_name;              ///< of a run that has none
  std::optional<std::int64_t> ranks = {};  ///< null: not known
};

class Restart {
 public:
  /// `command` is what a rank runs ("train", ...). Words of a `train` command are read as it reads them. When it may be tried
  /// again and its settings do not name the run's folder, log.dir=runs/`generated_name` joins them. Where they do not say how
  /// often to save by the clock, every 30 s joins them, beside the steps. Adds to `problems` what is wrong with the settings, and
  /// a folder that has checkpoints of another run.
  Restart(std::vector<std::string> command, const RestartFacts& facts, std::vector<Problem>& problems);

  const std::vector<std::string>& command() const { return command_; }
  /// The run's folder; empty when this is no training.
  const std::string& folder() const { return folder_; }
  /// The folder that was added; empty when the words stayed as they were.
  const std::string& added_folder() const { return added_folder_; }
  /// The step of the newest checkpoint; 0: there is none yet, or the folder cannot be read.
  std::int64_t saved_step() const;
  /// How far the run has come: the last step that is saved or logged; 0: none is.
  std::int64_t reached_step() const;
  /// The command of a retry on `ranks`. Where the run began from scratch, train.init_from=auto joins it: the ranks find out
  /// whether there is a checkpoint to go on from. Where there is none yet, optimizer.gas keeps the samples of a step. Throws
  /// UserError where they cannot be kept, and where the run's folder cannot be read.
  std::vector<std::string> retry(std::int64_t ranks) const;

 private:
  void save_often(const app::RunConfig& config);
  /// Adds the setting with which a step on `ranks` has the samples of the first attempt's steps.
  void keep_samples(std::int64_t ranks, std::vector<std::string>& command) const;

  std::vector<std::string> command_;
  std::string folder_;                        // of the run; empty when this is no training
  std::optional<app::RunConfig> config_;      // nothing: no training is known
  std::optional<std::int64_t> global_batch_;  // of the first attempt's steps, where its ranks are known
  std::string added_folder_;
};

}  // namespace lockstep::launch
