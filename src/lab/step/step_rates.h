#pragma once

// Rates of kernels inside a training step, beside the multiply-add rate. Other kernels have just written their operands. Biases
// and activations are included.

#include "base/dtype.h"
#include "device/runtime.h"

namespace lockstep::lab {

/// Rates of kernels with weights and activations of one type.
struct StepRates {
  double product_share = 0;    ///< share of the multiply-add rate, for products with endlessly many terms
  double product_depth = 0;    ///< each sum of a product costs as much time as so many more terms
  double attention_share = 0;  ///< share of the rate of such products, for attention in whole blocks of keys
};

/// Rates of the fastest of `steps` steps, after one to warm up, of each of three small models (narrow, wide, long). Takes about
/// half a second for a step of all three on one core.
StepRates measure_step_rates(Runtime& runtime, DType type, int steps);

}  // namespace lockstep::lab
