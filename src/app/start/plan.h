#pragma once

// The layout of a run, from its settings and the ranks that train.

#include <string>
#include <vector>

#include "app/run_config.h"
#include "comm/communicator.h"
#include "layout/parallel_plan.h"

namespace lockstep::app {

/// Ranks that neighbours have on each host when every host has as many, by the host of each rank; 0 when not.
int ranks_per_host(const std::vector<std::string>& hosts);

/// How `trainers` share the model and its samples. Throws UserError for a layout that they cannot have. Collective.
layout::ParallelPlan plan_of(const RunConfig& config, const arch::ModelConfig& model, comm::Communicator& trainers);

}  // namespace lockstep::app
