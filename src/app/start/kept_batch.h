#pragma once

// A resumed run keeps the samples of a step.

#include <vector>

#include "app/settings/run_config.h"
#include "base/log.h"
#include "checkpoint/find.h"

namespace lockstep::app {

/// On another number of `ranks` that train, optimizer.gas changes. Returns why it cannot.
std::vector<Problem> keep_global_batch(RunConfig& config, const checkpoint::Choice& choice, std::int64_t ranks, Log& log);

}  // namespace lockstep::app
