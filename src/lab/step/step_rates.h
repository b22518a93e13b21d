#pragma once

// What kernels reach inside a training step, beside the rate of multiply-adds: with operands that other kernels have just
// written, biases and activations included.

#include "base/dtype.h"
#include "device/runtime.h"

namespace lockstep::lab {

/// What kernels reach with weights and activations of one type.
struct StepRates {
  double product_share = 0;    ///< of the rate of multiply-adds: products that add up endlessly many terms
  double product_depth = 0;    ///< terms, whose time each sum of a product takes besides
  double attention_share = 0;  ///< of the rate of such products: attention in whole blocks of keys
};

/// The fastest of `steps` steps, behind one to warm up, of each of three small models (narrow, wide, long). Takes about half a
/// second a step of all three on one core.
StepRates measure_step_rates(Runtime& runtime, DType type, int steps);

}  // namespace lockstep::lab
