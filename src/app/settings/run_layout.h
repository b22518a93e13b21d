#pragma once

// How the ranks of a run share its work, as far as the settings alone say it. All ranks train, or with train.backend=ps the last
// ones serve the parameters to the others.

#include <cstdint>
#include <vector>

#include "app/settings/run_config.h"
#include "layout/parallel_plan.h"
#include "train/engine_config.h"

namespace lockstep::app {

/// Ranks that serve; 0 without parameter servers.
std::int64_t servers_of(const RunConfig& config);
/// Ranks that train, of `ranks`.
std::int64_t workers_of(const RunConfig& config, std::int64_t ranks);
/// Ranks that have one copy of the model between them.
std::int64_t ranks_of_model(const RunConfig& config);
/// What workers exchange with parameter servers.
train::ServerMode server_mode(const RunConfig& config);
/// What is wrong with the settings of parameter servers, taken together.
std::vector<Problem> check_servers(const RunConfig& config);
/// Whether so many ranks have a worker among them; nothing is wrong with the number itself.
std::vector<Problem> check_roles(const RunConfig& config, std::int64_t ranks);

/// The layout of `trainers` ranks, without their hosts. Without parallel.dp its degree is that of the ranks that the others
/// leave, at least 1.
layout::ParallelPlan layout_of(const RunConfig& config, std::int64_t trainers);

/// How many groups of ranks read different samples in a run of `ranks` ranks, servers included.
int replicas_of(const RunConfig& config, std::int64_t ranks);

}  // namespace lockstep::app
