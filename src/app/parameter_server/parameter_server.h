#pragma once

// Commands about parameter servers.

#include "app/command.h"

namespace lockstep::app {

/// `lockstep bench staleness`; returns the exit code.
int bench_staleness(const Arguments& arguments);

}  // namespace lockstep::app
