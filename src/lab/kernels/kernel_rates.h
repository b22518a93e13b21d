#pragma once

// How fast a device's kernels are on shapes of real models.

#include <string>
#include <vector>

#include "lab/kernels/kernel_trials.h"

namespace lockstep::lab {

struct KernelRate {
  std::string what;      ///< "product, fp32, 4096 x 4096 x 4096"
  DType type;            ///< of the values that are multiplied or moved
  double rate = 0;       ///< FLOPs/s or bytes/s, the median of several calls
  bool products = true;  ///< whether the rate is in FLOPs/s
};

/// Measures products, attention and sums. Their sizes are those of real models divided by `divisor`.
std::vector<KernelRate> measure_kernels(const KernelMachine& machine, std::int64_t divisor = 1);

}  // namespace lockstep::lab
