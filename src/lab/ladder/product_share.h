#pragma once

// How far kernels' products are from what the processor could do.

#include "device/runtime.h"
#include "lab/step/step_shapes.h"
#include "ops/ops.h"

namespace lockstep::lab {

/// Of the rate of multiply-adds, what products of the layers in a step of the shape reach together, in fp32, each beside the rate
/// of the same moments. Takes a few seconds.
double product_share(const StepShape& shape, Runtime& runtime, ops::Isa isa, const ops::PlainKernels& kernels);

}  // namespace lockstep::lab
