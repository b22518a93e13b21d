#pragma once

// What a layer does with a tile of its product while the tile is in cache, and the bias gradient.

#include <cstdint>

#include "ops/cpu/product/product.h"
#include "ops/linear.h"

namespace lockstep::ops::cpu {

/// y = residual + f(pre), pre = sums + bias; with a gate y = residual + f(gate) * pre. Each value is rounded once, where it is
/// stored. Stored or not, pre is rounded before f or a gate meets it. So reading a text gives the bits of training on it.
struct ForwardContext {
  Rows y, pre_activation, gate, residual, bias;
};

/// dx = sums * f'(pre_activation), activated = f(pre_activation); with a gate dx = sums * f(gate),
/// d_gate = sums * pre_activation * f'(gate), activated = f(gate) * pre_activation.
struct InputContext {
  Rows dx, pre_activation, gate, d_gate, activated;
  bool stream = false;  ///< dx and d_gate are stored past the caches, where they begin with a cache line
};

using FinishTile = decltype(Finish::apply);

/// The epilogues of products for tensors of one storage type S.
struct Epilogues {
  FinishTile forward[activation_count];  ///< by Activation; context: ForwardContext
  FinishTile input[activation_count];    ///< by Activation; context: InputContext
  SumRows sum_rows;
};

struct EpilogueKernels {
  Epilogues f32, bf16;
  const Epilogues& of(DType type) const { return type == DType::bf16 ? bf16 : f32; }
};

EpilogueKernels epilogue_kernels_for(Isa isa);

}  // namespace lockstep::ops::cpu
