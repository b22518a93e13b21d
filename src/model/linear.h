#pragma once

// Products of a sub-layer with one of its matrices. The matrix is whole, or leased tile by tile (layout/tiles). From tiles a
// product is made in parts. The sums of the parts stay f32 until the last part finishes them, and have the bits of the whole
// matrix. Where the matrix has adapters (arch/adapter), the product goes on with their sums, which are f32.

#include <span>

#include "model/context.h"
#include "model/leases.h"
#include "model/saved.h"

namespace lockstep::model {

/// y [r, features] from x [r, in-features], by rows `features` of the matrix.
struct Projection {
  layout::Range features;
  Tensor y, x;
  ops::Epilogue epilogue = {};
  std::int64_t first_row = 0;  ///< of y, among those of all projections of a call that share features
};

/// A matrix, and what its gradient is made of: x [r, in-features] and dy [r, out-features].
struct WeightWork {
  arch::Role weight;
  Tensor bias, x, dy;
};

/// Makes each feature's projections, in their order. A projection's epilogue may read what an earlier one made.
void project(const Context& context, const LayerWeights& w, arch::Role weight, std::span<const Projection> projections,
             const Scratch& scratch);

/// dx [r, in-features] = epilogue(dy [r, out-features] w). The gradients of what adapters have between A and B stay in `scratch`.
void project_back(const Context& context, const LayerWeights& w, arch::Role weight, const Tensor& dx, const Tensor& dy,
                  const Scratch& scratch, const ops::InputEpilogue& epilogue = {});

/// Pushes the gradients of the matrix and its bias (or an empty tensor), for y = x w^T + b. It also pushes those of the matrix's
/// adapters, of which project_back() has left its part in `scratch`. What is not trained is left out.
void push(const Context& context, const LayerWeights& w, const Gradients& gradients, const WeightWork& work,
          const Scratch& scratch);

}  // namespace lockstep::model
