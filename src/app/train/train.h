#pragma once

// `lockstep train`, for commands that train.

#include "app/cli/command.h"
#include "app/start/session.h"

namespace lockstep::app {

/// Does what the words say; returns the exit code. `around`: RankOptions::around.
int train(const Arguments& arguments, const decltype(RankOptions::around)& around = {});

}  // namespace lockstep::app
