#pragma once

// The layout of a run, from its settings and the ranks that train.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/settings/run_config.h"
#include "comm/communicator.h"
#include "layout/parallel_plan.h"

namespace lockstep::app {

/// Ranks on each host, where all hosts have as many and the ranks of a host are neighbours; else 0. `hosts`: the host of each
/// rank.
int ranks_per_host(const std::vector<std::string>& hosts);

/// Ranks of a host as the settings, else the launcher, say it; null: neither does.
std::optional<int> given_ranks_per_host(const RunConfig& config);

/// What is wrong with the layout of a run of `ranks` ranks, servers included, as far as it is known before the ranks meet. Where
/// model.vocab_size is null, the text has not told its vocabulary yet.
std::vector<Problem> check_layout(const RunConfig& config, std::int64_t ranks);

/// What is wrong with a run of `ranks` ranks: their roles, and that layout.
std::vector<Problem> check_ranks(const RunConfig& config, std::int64_t ranks);

/// The plan by which `trainers` ranks, `per_host` on each host, would share a run. It is for showing: no rank is asked.
/// `on_host`: their devices' memory is the host's. Throws UserError for a layout that the ranks cannot have.
layout::ParallelPlan plan_of(const RunConfig& config, const arch::ModelConfig& model, std::int64_t trainers, int per_host,
                             bool on_host);
/// How `trainers`, each with such a device, share the model and its samples. What is offloaded to the host's memory stays where
/// it is if that is the device's. Throws UserError for a layout that they cannot have. Collective.
layout::ParallelPlan plan_of(const RunConfig& config, const arch::ModelConfig& model, comm::Communicator& trainers,
                             Device device);

}  // namespace lockstep::app
