#pragma once

// What `train` says when it has ended.

#include <cstdio>

#include "app/settings/run_config.h"
#include "app/start/session.h"
#include "train/report/history.h"

namespace lockstep::app {

/// A plot of the losses, a sample, the speed, and the command that goes on from here. `folder`: the run's.
void print_summary(const train::TrainingHistory& history, const io::Path& folder, const RunConfig& config, const Session& session,
                   std::FILE* out);

}  // namespace lockstep::app
