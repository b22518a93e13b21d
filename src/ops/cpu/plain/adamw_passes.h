#pragma once

// AdamW one operation at a time, each a pass over a tensor. Frameworks without a fused optimizer compute it so. It has the
// roundings of update.cpp in the same order, and so the same bits.

#include <cstdint>
#include <span>

#include "ops/update.h"

namespace lockstep::ops::cpu {

/// What passes work on: the tensors' elements from `first` on, and as many of two operands between passes. All are f32, except
/// published weights and a master copy in halves. `weights` are the tensors' own, or a copy that passes join and split again.
struct AdamWPass {
  const AdamWTensors& tensors;
  const float (&factors)[9];  ///< as AdamWRange has them
  std::int64_t first;
  float *weights, *gradient, *step;
};

/// Elements [first, last), counted from the pass' first.
using AdamWPassKernel = void (*)(const AdamWPass& pass, std::int64_t first, std::int64_t last);

/// The passes in order, for the instruction set that a ScopedIsa names.
std::span<const AdamWPassKernel> adamw_passes();

}  // namespace lockstep::ops::cpu
