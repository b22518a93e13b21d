#pragma once

// Bytes of a layout's ranks.

#include "layout/mesh.h"
#include "planner/step_time.h"
#include "tensor/ledger.h"

namespace lockstep::planner {

/// What the engine of the rank declares (train/memory/rank_memory), with AdamW, for bf16 weights on fp32 master copies.
Ledger declared_memory(const Work& work, const Candidate& candidate, const layout::Coordinates& at);

/// Of the device of the rank that takes most: the first or the last stage's.
struct DeviceMemory {
  std::int64_t bytes = 0;
  std::int64_t host_bytes = 0;  ///< that it keeps in the host's memory
};
DeviceMemory device_memory(const Work& work, const Candidate& candidate);

/// About the same, in a microsecond: what may be left out without asking device_memory().
double estimated_bytes(const Work& work, const Candidate& candidate);

}  // namespace lockstep::planner
