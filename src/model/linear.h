#pragma once

// Products of a sub-layer with one of its matrices, which is whole, or leased tile by tile (layout/tiles): then a product is made
// in parts, whose sums stay f32 until the last one finishes them, with the bits of the whole matrix.

#include <span>

#include "model/context.h"
#include "model/leases.h"

namespace lockstep::model {

/// y [r, features] from x [r, in-features], by rows `features` of the matrix.
struct Projection {
  layout::Range features;
  Tensor y, x;
  ops::Epilogue epilogue = {};
  std::int64_t first_row = 0;  ///< of y, among those of all projections of a call that share features
};

/// Makes each feature's projections, in their order. A projection's epilogue may read what an earlier one made. `sums`: room for
/// f32 [rows, BlockSizes::tile_sums], empty where nothing needs it.
void project(const Context& context, const LayerWeights& w, arch::Role weight, std::span<const Projection> projections,
             const Tensor& sums);

/// dx [r, in-features] = epilogue(dy [r, out-features] w).
void project_back(const Context& context, const LayerWeights& w, arch::Role weight, const Tensor& dx, const Tensor& dy,
                  const Tensor& sums, const ops::InputEpilogue& epilogue = {});

}  // namespace lockstep::model
