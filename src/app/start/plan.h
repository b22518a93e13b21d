#pragma once

// The layout of a run, from its settings and the ranks that train.

#include <cstdint>
#include <string>
#include <vector>

#include "app/run_config.h"
#include "comm/communicator.h"
#include "layout/parallel_plan.h"

namespace lockstep::app {

/// Ranks that neighbours have on each host when every host has as many, by the host of each rank; 0 when not.
int ranks_per_host(const std::vector<std::string>& hosts);

/// What the settings say of the layout of `trainers` ranks; their hosts are left out. Without parallel.dp its degree is that of
/// the ranks that the others leave, at least 1.
layout::ParallelPlan layout_of(const RunConfig& config, std::int64_t trainers);

/// Of a run on `ranks` ranks, servers among them: how many groups of them read different samples.
int replicas_of(const RunConfig& config, std::int64_t ranks);

/// What is wrong with the layout of a run of `ranks` ranks, servers included, as far as it is known before the ranks meet: where
/// model.vocab_size is null, the text has not told its vocabulary.
std::vector<Problem> check_layout(const RunConfig& config, std::int64_t ranks);

/// Weights that lie whole in memory are read there: tiles would only make products smaller.
void drop_idle_tiles(layout::ParallelPlan& plan);

/// How `trainers`, each with such a device, share the model and its samples. What is offloaded to the host's memory stays where
/// it is if that is the device's. Throws UserError for a layout that they cannot have. Collective.
layout::ParallelPlan plan_of(const RunConfig& config, const arch::ModelConfig& model, comm::Communicator& trainers,
                             Device device);

}  // namespace lockstep::app
