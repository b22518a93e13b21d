#pragma once

// Bytes of a layout's ranks.

#include "layout/mesh.h"
#include "planner/step_time.h"
#include "tensor/ledger.h"

namespace lockstep::planner {

/// What the engine of a rank declares, and where it lies.
struct DeclaredMemory {
  Ledger ledger;          ///< the device's and the host's
  std::int64_t host = 0;  ///< of these bytes
  std::int64_t disk = 0;  ///< besides
  std::int64_t device() const { return ledger.total() - host; }
};
/// Divides declared memory by place. `elsewhere`: bytes that are kept away from the device, in the host's memory (the ledger has
/// those too) and on a disk.
DeclaredMemory placed(Ledger ledger, std::int64_t elsewhere);
/// What train/memory/rank_memory declares, with AdamW, for bf16 weights on fp32 master copies.
DeclaredMemory declared_memory(const Work& work, const Candidate& candidate, const layout::Coordinates& at);

/// Memory of the device of the rank that takes most: the first or the last stage's. Another system's is told by formula.
struct DeviceMemory {
  std::int64_t bytes = 0;
  std::int64_t host_bytes = 0;  ///< that it keeps in the host's memory
  std::int64_t disk_bytes = 0;  ///< and on the host's disks
};
DeviceMemory device_memory(const Work& work, const Candidate& candidate);

/// What all blocks of a pipeline's first rank keep in another system than this program.
double block_bytes(const Work& work, const Candidate& candidate);

/// About the same, in a microsecond: what may be left out without asking device_memory().
double estimated_bytes(const Work& work, const Candidate& candidate);

}  // namespace lockstep::planner
