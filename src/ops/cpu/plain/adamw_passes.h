#pragma once

// AdamW one operation at a time, each a pass over a tensor, as frameworks do that have no fused optimizer: the roundings of
// update.cpp in its order, so its bits.

#include <cstdint>
#include <span>

#include "ops/update.h"

namespace lockstep::ops::cpu {

/// Elements [first, first + count) of the tensors, all f32 but what is published and a master copy in halves, and as many of two
/// operands between passes. `weights` are the tensors' own, or a copy that passes join and split again.
struct AdamWPass {
  const AdamWTensors& tensors;
  const float (&factors)[9];  ///< as AdamWRange has them
  std::int64_t first;
  float *weights, *gradient, *step;
};

/// Elements [first, last), counted from the pass' first.
using AdamWPassKernel = void (*)(const AdamWPass& pass, std::int64_t first, std::int64_t last);

/// In order; of the instruction set that a ScopedIsa names.
std::span<const AdamWPassKernel> adamw_passes();

}  // namespace lockstep::ops::cpu
