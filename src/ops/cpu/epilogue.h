#pragma once

// What a layer does with a tile of its product while the tile is in cache, and the bias gradient.

#include <cstdint>

#include "ops/cpu/product.h"
#include "ops/linear.h"

namespace lockstep::ops::cpu {

/// A matrix in host memory; null: not there.
struct Rows {
  float* data = nullptr;
  std::int64_t stride = 0;
};

/// y = residual + f(pre), pre = sums + bias.
struct ForwardContext {
  Rows y, pre_activation, residual;
  const float* bias = nullptr;
};

/// dx = sums * f'(pre_activation), activated = f(pre_activation).
struct InputContext {
  Rows dx, pre_activation, activated;
};

using FinishTile = decltype(Finish::apply);

struct EpilogueKernels {
  FinishTile forward[4];  ///< by Activation; context: ForwardContext
  FinishTile input[4];    ///< by Activation; context: InputContext
  SumRows sum_rows;
};

EpilogueKernels epilogue_kernels_for(Isa isa);

}  // namespace lockstep::ops::cpu
