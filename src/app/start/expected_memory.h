#pragma once

// What a rank that trains will take, before it takes anything.

#include "app/run_config.h"
#include "app/session.h"
#include "parallel/groups.h"
#include "tensor/ledger.h"
#include "train/engine_config.h"
#include "train/updater.h"

namespace lockstep::app {

struct TrainingNeeds {
  const RunConfig& config;
  train::EngineConfig& settings;
  Session& session;
  const parallel::Groups& groups;  ///< of the ranks that train
  const train::UpdaterFactory& updater;
};

/// What the run will declare, its text's and its samples' memory included. What memory.limit leaves goes to weights that stay
/// gathered: sets settings.plan.kept. Takes nothing. Collective over the session's ranks that train.
Ledger expected_memory(const TrainingNeeds& needs);
/// Bytes that the rank at `at`, which took `taken`, keeps on a disk.
std::int64_t disk_bytes(const train::EngineConfig& settings, const layout::Coordinates& at, const Ledger& taken);

}  // namespace lockstep::app
