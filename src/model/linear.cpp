#include "model/linear.h"

namespace lockstep::model {
namespace {

Tensor columns_of(const Tensor& matrix, const layout::Range& columns) {
  return matrix ? matrix.slice_columns(columns.first, columns.count) : Tensor{};
}

ops::Epilogue columns_of(const ops::Epilogue& of, const layout::Range& columns) {
  return {.bias = of.bias ? of.bias.flat(columns.first, columns.count) : Tensor{},
          .pre_activation = columns_of(of.pre_activation, columns),
          .activation = of.activation,
          .residual = columns_of(of.residual, columns),
          .gate = columns_of(of.gate, columns)};
}

ops::InputEpilogue columns_of(const ops::InputEpilogue& of, const layout::Range& columns) {
  return {.pre_activation = columns_of(of.pre_activation, columns),
          .activation = of.activation,
          .activated = columns_of(of.activated, columns),
          .gate = columns_of(of.gate, columns),
          .d_gate = columns_of(of.d_gate, columns)};
}

/// f32 is summed where it is wanted, unless that holds what is added last (arch::tile_sums).
bool in_place(const Tensor& y, const ops::Epilogue& epilogue) {
  return y.dtype == DType::f32 && (!epilogue.residual || epilogue.residual.data != y.data);
}

void project_tile(const Context& context, const arch::TiledMatrix& tiled, const arch::Tile& tile, const Tensor& matrix,
                  const Projection& to, const Tensor& sums) {
  const layout::Range rows = layout::overlap(tile.rows, to.features);
  if (rows.count == 0) return;
  const layout::Range columns{rows.first - to.features.first, rows.count}, within{rows.first - tile.rows.first, rows.count};
  const bool first = tile.columns.first == 0, last = tile.columns.end() == tile.part.row;
  const Tensor y = columns_of(to.y, columns);
  Tensor partial = y;
  if (tiled.across > 1 && !in_place(to.y, to.epilogue)) partial = columns_of(sums.slice_rows(to.first_row, y.rows()), within);
  ops::Epilogue epilogue = last ? columns_of(to.epilogue, columns) : ops::Epilogue{};
  if (!first) epilogue.sums = partial;
  context.ops.linear().forward(last ? y : partial, columns_of(to.x, tile.columns), matrix.slice_rows(within.first, within.count),
                               epilogue);
}

}  // namespace

void project(const Context& context, const LayerWeights& w, arch::Role weight, std::span<const Projection> projections,
             const Tensor& sums) {
  const arch::TiledMatrix* tiled = w.tiled(weight);
  if (tiled == nullptr) {
    for (const auto& [features, y, x, epilogue, first_row] : projections)
      context.ops.linear().forward(y, x, w[weight].slice_rows(features.first, features.count), epilogue);
    return;
  }
  for (const arch::Tile& tile : tiled->tiles) {
    const LeasedTile leased = w.lease(tile);
    for (const Projection& to : projections) project_tile(context, *tiled, tile, leased.matrix, to, sums);
  }
}

void project_back(const Context& context, const LayerWeights& w, arch::Role weight, const Tensor& dx, const Tensor& dy,
                  const Tensor& sums, const ops::InputEpilogue& epilogue) {
  const arch::TiledMatrix* tiled = w.tiled(weight);
  if (tiled == nullptr) return context.ops.linear().backward_input(dx, dy, w[weight], epilogue);
  for (std::size_t i = 0; i < tiled->tiles.size(); ++i) {
    const arch::Tile& tile = tiled->backward(i);
    const LeasedTile leased = w.lease(tile);
    const bool first = i % tiled->down() == 0, last = i % tiled->down() + 1 == tiled->down();
    const Tensor to = columns_of(dx, tile.columns);
    Tensor partial = to;
    if (tiled->down() > 1 && dx.dtype != DType::f32) partial = sums.slice_rows(0, dx.rows()).slice_columns(0, tile.columns.count);
    ops::InputEpilogue finish = last ? columns_of(epilogue, tile.columns) : ops::InputEpilogue{};
    if (!first) finish.sums = partial;
    context.ops.linear().backward_input(last ? to : partial, columns_of(dy, tile.rows), leased.matrix, finish);
  }
}

}  // namespace lockstep::model
