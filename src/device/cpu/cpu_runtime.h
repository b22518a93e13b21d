#pragma once

// The CPU as a device: an immediate stream, host memory, and the rank's worker team.

#include <memory>

#include "device/runtime.h"

namespace lockstep::cpu {

/// Throws UserError when options.threads is negative or above 1000.
std::unique_ptr<Runtime> open_cpu_runtime(const CpuOptions& options);

}  // namespace lockstep::cpu
