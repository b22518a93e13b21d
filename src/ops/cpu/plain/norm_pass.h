#pragma once

// The passes of plain normalisation (plain_norm.cpp) and what they work on.

#include <cstdint>

#include "ops/norm.h"
#include "tensor/tensor.h"

namespace lockstep::ops::cpu {

/// So many rows make a block, whose part of a parameter's gradient is summed by itself.
inline constexpr std::int64_t norm_block = 64;

/// The arguments of Norm's functions, and what passes leave for each other: rows [first, last) of it.
struct NormPass {
  Tensor x, stats, gain, bias;
  Tensor n = {};  // [B, C] or empty
  Tensor added = {};
  Tensor dn = {}, dx = {}, residual = {};
  Tensor d_gain = {}, d_bias = {};
  float eps = 0;
  NormForm form = NormForm::layer;
  bool add = false;  ///< d_gain and d_bias are added to
  std::int64_t first = 0, last = 0, columns = 0;
  float* unit = nullptr;  ///< (x - mean) * rstd, or a step towards it
  float* d_unit = nullptr;
  float* means = nullptr;  ///< [rows, 2]
};

/// Rows [first, last) of a pass. The passes of parameters' gradients take columns [first, last).
using NormPassKernel = void (*)(const NormPass& pass, std::int64_t first, std::int64_t last);

struct NormPasses {
  NormPassKernel means, centre, deviations, scale, affine;
  NormPassKernel times_gain, mean_gradients, centre_gradient, project_gradient, input_gradient, gain_gradient, bias_gradient;
};

struct AllNormPasses {
  NormPasses f32, bf16;
  const NormPasses& of(DType type) const { return type == DType::bf16 ? bf16 : f32; }
};

}  // namespace lockstep::ops::cpu
