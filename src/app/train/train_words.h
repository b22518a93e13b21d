#pragma once

// The words of `train`, for it and for what starts it.

#include <cstdint>
#include <optional>

#include "app/cli/command.h"
#include "app/start/resolve.h"

namespace lockstep::app {

struct TrainWords {
  settings::Sources sources;  ///< without ranks
  bool dry_run = false;
  std::int64_t ranks = 1;                  ///< threads of this process
  std::optional<double> minutes = {};      ///< of a run whose model and length are chosen
  std::optional<std::int64_t> watch = {};  ///< the port of the run's page
};

/// Null when --help was asked for and printed. Throws UserError with every problem of their grammar; settings are not resolved.
std::optional<TrainWords> read_train_words(const Arguments& arguments);

}  // namespace lockstep::app
