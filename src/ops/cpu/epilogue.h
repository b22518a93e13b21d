#pragma once

// What a layer does with a tile of its product while the tile is in cache, and the bias gradient.

#include <cstdint>

#include "ops/cpu/product/product.h"
#include "ops/linear.h"

namespace lockstep::ops::cpu {

/// A matrix in host memory; null: not there.
struct Rows {
  float* data = nullptr;
  std::int64_t stride = 0;
};

/// y = residual + f(pre), pre = sums + bias; with a gate y = residual + f(gate) * pre.
struct ForwardContext {
  Rows y, pre_activation, gate, residual;
  const float* bias = nullptr;
};

/// dx = sums * f'(pre_activation), activated = f(pre_activation); with a gate dx = sums * f(gate),
/// d_gate = sums * pre_activation * f'(gate), activated = f(gate) * pre_activation.
struct InputContext {
  Rows dx, pre_activation, gate, d_gate, activated;
};

using FinishTile = decltype(Finish::apply);

struct EpilogueKernels {
  FinishTile forward[activation_count];  ///< by Activation; context: ForwardContext
  FinishTile input[activation_count];    ///< by Activation; context: InputContext
  SumRows sum_rows;
};

EpilogueKernels epilogue_kernels_for(Isa isa);

}  // namespace lockstep::ops::cpu
