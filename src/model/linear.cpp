#include "model/linear.h"

#include <algorithm>

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

/// What lies between A and B of the context's adapter `number`, [rows, r]; of its gradient the same.
struct Between {
  Tensor values, gradient;
};

Between between(const Scratch& scratch, std::size_t number, std::int64_t rows) {
  const auto place = static_cast<std::int64_t>(number);
  const std::int64_t most = scratch.adapters.rows() / scratch.adapter_places;
  return {scratch.adapters.slice_rows(2 * place * most, rows), scratch.adapters.slice_rows((2 * place + 1) * most, rows)};
}

bool adapts(const Context& context, arch::Role weight) {
  return std::ranges::find(context.adapters, weight, &arch::AdapterSite::matrix) != context.adapters.end();
}

/// scale x A^T.
void enter_adapter(const Context& context, const LayerWeights& w, const arch::AdapterSite& site, const Tensor& to,
                   const Tensor& x) {
  context.ops.linear().forward(to, x, w[site.a]);
  context.ops.elementwise().scale(to, static_cast<float>(context.config.adapter.scale()));
}

/// A projection of rows of a matrix that have adapters, or of rows that have none.
void project_beside(const Context& context, const LayerWeights& w, arch::Role weight, const Projection& whole,
                    const layout::Range& features, const Scratch& scratch) {
  const layout::Range columns{features.first - whole.features.first, features.count};
  const Tensor y = columns_of(whole.y, columns);
  ops::Epilogue epilogue = columns_of(whole.epilogue, columns);
  Tensor partial = y;
  if (!in_place(whole.y, whole.epilogue)) partial = scratch.tile_sums.slice_rows(0, y.rows()).slice_columns(0, features.count);
  for (std::size_t i = 0; i < context.adapters.size(); ++i) {
    const arch::AdapterSite& site = context.adapters[i];
    const layout::Range rows = layout::overlap(site.rows, features);
    if (site.matrix != weight || rows.count == 0) continue;
    const Tensor inner = between(scratch, i, whole.x.rows()).values;
    enter_adapter(context, w, site, inner, whole.x);
    context.ops.linear().forward(partial.slice_columns(rows.first - features.first, rows.count), inner,
                                 w[site.b].slice_rows(rows.first - site.rows.first, rows.count));
    epilogue.sums = partial;
  }
  context.ops.linear().forward(y, whole.x, w[weight].slice_rows(features.first, features.count), epilogue);
}

/// Neighbouring rows that all have adapters, or all have none, at a time.
void project_with_adapters(const Context& context, const LayerWeights& w, arch::Role weight, const Projection& whole,
                           const Scratch& scratch) {
  layout::Range features{whole.features.first, 0};
  bool adapted = false;
  const auto take = [&](std::int64_t end, bool with) {
    if (features.count > 0 && with != adapted) {
      project_beside(context, w, weight, whole, features, scratch);
      features = {features.end(), 0};
    }
    adapted = with;
    features.count = end - features.first;
  };
  for (const arch::AdapterSite& site : context.adapters) {
    const layout::Range rows = layout::overlap(site.rows, whole.features);
    if (site.matrix != weight || rows.count == 0) continue;
    if (rows.first > features.end()) take(rows.first, false);
    take(rows.end(), true);
  }
  if (features.end() < whole.features.end()) take(whole.features.end(), false);
  project_beside(context, w, weight, whole, features, scratch);
}

}  // namespace

void project(const Context& context, const LayerWeights& w, arch::Role weight, std::span<const Projection> projections,
             const Scratch& scratch) {
  const arch::TiledMatrix* tiled = w.tiled(weight);
  if (adapts(context, weight)) {
    ensure(tiled == nullptr, "a matrix with adapters is not tiled");
    for (const Projection& to : projections) project_with_adapters(context, w, weight, to, scratch);
    return;
  }
  if (tiled == nullptr) {
    for (const auto& [features, y, x, epilogue, first_row] : projections)
      context.ops.linear().forward(y, x, w[weight].slice_rows(features.first, features.count), epilogue);
    return;
  }
  for (const arch::Tile& tile : tiled->tiles) {
    const LeasedTile leased = w.lease(tile);
    for (const Projection& to : projections) project_tile(context, *tiled, tile, leased.matrix, to, scratch.tile_sums);
  }
}

void project_back(const Context& context, const LayerWeights& w, arch::Role weight, const Tensor& dx, const Tensor& dy,
                  const Scratch& scratch, const ops::InputEpilogue& epilogue) {
  const arch::TiledMatrix* tiled = w.tiled(weight);
  const Tensor& sums = scratch.tile_sums;
  if (tiled == nullptr) {
    ops::InputEpilogue finish = epilogue;
    const Tensor partial =
        dx.dtype == DType::f32 || !adapts(context, weight) ? dx : sums.slice_rows(0, dx.rows()).slice_columns(0, dx.columns());
    for (std::size_t i = 0; i < context.adapters.size(); ++i) {
      const arch::AdapterSite& site = context.adapters[i];
      if (site.matrix != weight) continue;
      const Tensor inner = between(scratch, i, dy.rows()).gradient;
      context.ops.linear().backward_input(inner, columns_of(dy, site.rows), w[site.b]);
      context.ops.elementwise().scale(inner, static_cast<float>(context.config.adapter.scale()));
      context.ops.linear().backward_input(partial, inner, w[site.a], {.sums = finish.sums});
      finish.sums = partial;
    }
    return context.ops.linear().backward_input(dx, dy, w[weight], finish);
  }
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

void push(const Context& context, const LayerWeights& w, const Gradients& gradients, const WeightWork& work,
          const Scratch& scratch) {
  if (gradients.set[work.weight]) gradients.push(work.weight, work.bias, work.x, work.dy);
  for (std::size_t i = 0; i < context.adapters.size(); ++i) {
    const arch::AdapterSite& site = context.adapters[i];
    if (site.matrix != work.weight) continue;
    const auto [inner, d_inner] = between(scratch, i, work.x.rows());
    enter_adapter(context, w, site, inner, work.x);
    gradients.push(site.b, {}, inner, columns_of(work.dy, site.rows));
    gradients.push(site.a, {}, work.x, d_inner);
  }
}

}  // namespace lockstep::model
