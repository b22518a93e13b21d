#pragma once

// Layouts that the planner found, trained for a few steps on this host.

#include <cstdint>
#include <vector>

#include "app/settings/run_config.h"

namespace lockstep::app {

/// Seconds of a step of each recipe, on `ranks` threads of this process: the median of steps that are taken in turns, on random
/// tokens. `vocabulary`: where a recipe does not say it. Throws UserError where there is not the memory for one.
std::vector<double> measured_steps(const std::vector<RunConfig>& recipes, std::int64_t ranks, std::int64_t vocabulary);

}  // namespace lockstep::app
