#pragma once

// How fast a device's kernels are on shapes of real models.

#include <string>
#include <vector>

#include "lab/kernels/kernel_trials.h"

namespace lockstep::lab {

struct KernelRate {
  std::string what;      ///< "product, fp32, 4096 x 4096 x 4096"
  DType type;            ///< of what is multiplied, or moved
  double rate = 0;       ///< FLOPs a second, or bytes; the median of some calls
  bool products = true;  ///< FLOPs
};

/// Measures products, attention and sums. Their sizes are those of real models divided by `divisor`.
std::vector<KernelRate> measure_kernels(const KernelMachine& machine, std::int64_t divisor = 1);

}  // namespace lockstep::lab
