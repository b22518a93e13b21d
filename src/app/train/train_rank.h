#pragma once

// From settings to a running training: what `train` does on one rank.

#include <cstdint>
#include <cstdio>
#include <string>

#include "app/cli/command.h"
#include "app/settings/run_config.h"
#include "app/start/session.h"
#include "train/report/history.h"

namespace lockstep::app {

/// How the program was called, the same on every rank.
struct TrainCall {
  Arguments arguments;
  double started = 0;       ///< now_seconds() of the program's start
  std::string name;         ///< of the run, when the settings give none
  bool live = false;        ///< a terminal: progress bar instead of log lines
  std::FILE* out = stdout;  ///< for log and summary; outlives the run
  std::string idle = {};    ///< what changes nothing, to be said below the book's first lines (log.style=rasbt)
};

/// How `ranks` ranks, servers included, are started for these settings.
RankOptions rank_options(const RunConfig& config, std::int64_t ranks);
/// Where the settings name a data set, its tokens are fetched and prepared.
void prepare_data(const RunConfig& config, Log& log);

/// The whole training on this rank, on data that is prepared. Rank 0 writes the run's folder and the summary. Returns what
/// happened in the training. Collective.
train::TrainingHistory train_rank(RunConfig config, const TrainCall& call, Session& session);

}  // namespace lockstep::app
