#pragma once

// The layout that a recipe asks for, as the planner takes it.

#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "planner/step_time.h"

namespace lockstep::app {

/// The recipe's layout over work.machine's ranks. Pipeline ranks share the blocks as in a run. Throws UserError for a layout that
/// these ranks cannot have, and for a schedule from a file. `on_host`: their devices' memory is the host's.
planner::Candidate candidate_of(const RunConfig& config, const planner::Work& work, bool on_host = false);

/// Values of --system.
std::vector<std::string> system_names();
/// A line on what a system's times on a machine are worth; empty where nothing is to be said.
std::string caveat(const planner::Work& work);

}  // namespace lockstep::app
