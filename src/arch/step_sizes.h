#pragma once

// Whether the sizes of a step can be counted at all.

#include <cstdint>
#include <vector>

#include "arch/config.h"
#include "base/error.h"

namespace lockstep::arch {

/// Sizes of one rank's step.
struct StepSizes {
  std::int64_t samples = 1, positions = 1;  ///< of a micro-batch
  std::int64_t microbatches = 1;
  std::int64_t kept = 1;  ///< micro-batches whose activations are kept at a time
};
/// Sizes of a sound model's step that 64 bits do not count; empty when all can be counted.
std::vector<Problem> check(const ModelConfig& config, const StepSizes& sizes);

}  // namespace lockstep::arch
