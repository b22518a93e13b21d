#pragma once

// Whether what the ranks of a host declare fits into memory.limit and into what is free, before any of it is taken.

#include <cstdint>
#include <optional>

#include "app/settings/run_config.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "io/free_memory.h"
#include "layout/mesh.h"
#include "tensor/ledger.h"
#include "train/engine_config.h"

namespace lockstep::app {

/// What a rank will take.
struct RankNeeds {
  const RunConfig& config;
  const train::EngineConfig& settings;  ///< of a rank that trains with its plan
  layout::Coordinates at;               ///< in that plan
  Device device;
  const Ledger& ledger;  ///< everything
  bool serves = false;   ///< it keeps parameters for those that train
};

/// Throws UserError on every rank when the ranks of a host together declare more than memory.limit. Returns the problem where
/// only free memory is lacking, which each rank sees as `free`. Memory that ranks share (windows) counts once: each declares its
/// own part of it. The problem names the largest tensors, and what settings that learn the same would save. The ranks declare
/// once more for these. Collective over `world`.
std::optional<Problem> demand_memory(const RankNeeds& needs, comm::Communicator& world,
                                     const std::optional<io::FreeMemory>& free);
/// The same, but a lack of free memory throws UserError, too.
void demand_memory(const RankNeeds& needs, comm::Communicator& world);

/// How many blocks' weights may stay gathered beside those in use (ParallelPlan::kept) within memory.limit on every host. It is 0
/// without a limit, where nothing is left, and where weights are not gathered. The same on all ranks. Collective over `world`.
int places_left(const RankNeeds& needs, comm::Communicator& world);

/// Bytes that the rank at `at`, which took `taken`, keeps on a disk.
std::int64_t disk_bytes(const train::EngineConfig& settings, const layout::Coordinates& at, const Ledger& taken);

}  // namespace lockstep::app
