#pragma once

// Is this machine or cluster fit for training? The commands and benches that say so, and what they share.

#include <string>

#include "app/command.h"

namespace lockstep::app {

/// `lockstep bench collectives`; returns the exit code.
int bench_collectives(const Arguments& arguments);

}  // namespace lockstep::app
