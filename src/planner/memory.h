#pragma once

// Bytes that a layout's ranks need.

#include "layout/mesh.h"
#include "planner/step_time.h"
#include "tensor/ledger.h"

namespace lockstep::planner {

/// Bytes that a rank's engine declares, by place.
struct DeclaredMemory {
  Ledger ledger;          ///< the device's and the host's
  std::int64_t host = 0;  ///< the ledger's bytes in the host's memory
  std::int64_t disk = 0;  ///< bytes on a disk, which the ledger does not have
  std::int64_t device() const { return ledger.total() - host; }
};
/// Divides declared memory by place. `elsewhere`: bytes that are offloaded to the host's memory (the ledger has these, too) and
/// to a disk.
DeclaredMemory placed(Ledger ledger, std::int64_t elsewhere);
/// The bytes that train/memory/rank_memory declares, with AdamW, for bf16 weights and fp32 master weights.
DeclaredMemory declared_memory(const Work& work, const Candidate& candidate, const layout::Coordinates& at);

/// Device memory of the rank that needs most: the first or the last stage's. For another system a formula gives it.
struct DeviceMemory {
  std::int64_t bytes = 0;
  std::int64_t host_bytes = 0;  ///< that this rank keeps in the host's memory
  std::int64_t disk_bytes = 0;  ///< that this rank keeps on the host's disks
};
DeviceMemory device_memory(const Work& work, const Candidate& candidate);

/// Bytes that all blocks of a pipeline's first rank keep in a system other than this program.
double block_bytes(const Work& work, const Candidate& candidate);

/// About the bytes of device_memory(), computed in a microsecond. It rules layouts out before device_memory() is asked.
double estimated_bytes(const Work& work, const Candidate& candidate);

}  // namespace lockstep::planner
