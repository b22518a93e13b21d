#include "ops/cpu/product/grid_product.h"

#include <algorithm>

#include "base/checked.h"
#include "base/sum_tree.h"

namespace lockstep::ops::cpu {
namespace {

constexpr int places = 4;  // of a tree of most_ranges ranges
static_assert(GridProduct::most_ranges == 1 << (places - 1));

// A tile stays in the second-level cache. Where A is copied for every tile it is wide, otherwise high: B is packed for each.
constexpr std::int64_t short_side = 192, long_side = 384;
constexpr std::int64_t tile_floats = short_side * long_side;
constexpr std::int64_t worker_floats = places * tile_floats;
constexpr std::int64_t tile_alignment = 16;  // floats of a cache line: rows of a tile begin with one
constexpr std::int64_t sum_columns = 512;    // of the sums of A that a worker takes at a time

const std::byte* at(const void* from, DType type, std::int64_t i) {
  return static_cast<const std::byte*>(from) + i * static_cast<std::int64_t>(size_of(type));
}

/// A place of the tree: a tile's rows, `stride` floats apart.
struct Place {
  float* data;
  std::int64_t stride;
};

void add(const Place& to, const Place& from, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    float* sum = to.data + i * to.stride;
    const float* part = from.data + i * from.stride;
    for (std::int64_t j = 0; j < columns; ++j) sum[j] += part[j];
  }
}

/// The part of `task` that makes `area` of C from a run of k, stored or added to `to`.
ProductTask part_of(const ProductTask& task, const Area& area, const IndexRun& run, const Place& to, bool accumulate) {
  ProductTask part = task;
  part.m = area.rows;
  part.n = area.columns;
  part.k = run.count;
  part.a =
      at(task.a, task.a_type, task.a_transposed ? run.first * task.a_stride + area.row : area.row * task.a_stride + run.first);
  part.b = at(task.b, task.b_type,
              task.b_transposed ? area.column * task.b_stride + run.first : run.first * task.b_stride + area.column);
  part.c = to.data;
  part.c_stride = to.stride;
  part.accumulate = accumulate;
  part.finish = {};
  part.sums = nullptr;
  return part;
}

}  // namespace

void GridProduct::take(MemorySource& memory) {
  if (!taken()) memory_ = memory.allocate(static_cast<std::size_t>(worker_floats * product_.team().size()) * sizeof(float));
}

float* GridProduct::scratch_of(int worker) const { return reinterpret_cast<float*>(memory_.data()) + worker_floats * worker; }

void GridProduct::run(const ProductTask& task, const SumGrid& grid) {
  ensure(task.b_tiled == 0, "what is summed by ranges does not lie in tiles");
  ensure(std::ssize(grid.ranges) <= most_ranges, "a grid has no more ranges than the workspace has places for");
  const bool wide = task.a_transposed || task.a_type != DType::f32;
  const std::int64_t rows = wide ? short_side : long_side, columns = wide ? long_side : short_side;
  const std::int64_t across = div_up(task.n, columns);
  product_.team().for_each(div_up(task.m, rows) * across, [&](std::int64_t tile, int worker) {
    const std::int64_t row = tile / across * rows, column = tile % across * columns;
    run_tile(task, grid, {row, column, std::min(rows, task.m - row), std::min(columns, task.n - column)}, worker);
  });
  if (task.sums != nullptr) sum_rows(task, grid);
}

void GridProduct::run_tile(const ProductTask& task, const SumGrid& grid, const Area& area, int worker) const {
  float* const scratch = scratch_of(worker);
  const std::int64_t stride = round_up(area.columns, tile_alignment);
  const Place c{task.c == nullptr ? nullptr : task.c + area.row * task.c_stride + area.column, task.c_stride};
  const bool direct = task.finish.apply == nullptr && !task.accumulate;
  const auto place = [&](int number) { return number == 0 && direct ? c : Place{scratch + number * tile_floats, stride}; };
  for (int range = 0; range < std::ssize(grid.ranges); ++range) {
    const Place to = place(place_in_tree(range));
    bool begun = false;
    for (const IndexRun& run : grid.ranges[static_cast<std::size_t>(range)]) {
      if (run.count == 0) continue;
      product_.run_alone(part_of(task, area, run, to, begun), worker);
      begun = true;
    }
    for (std::int64_t i = 0; i < area.rows && !begun; ++i) std::fill_n(to.data + i * to.stride, area.columns, 0.0F);
    merge_behind(range, [&](int below, int above) { add(place(below), place(above), area.rows, area.columns); });
  }
  if (task.finish.apply != nullptr) return task.finish.apply(task.finish.context, area, scratch, stride);
  if (task.accumulate) add(c, place(0), area.rows, area.columns);
}

void GridProduct::sum_rows(const ProductTask& task, const SumGrid& grid) {
  product_.team().for_each(div_up(task.m, sum_columns), [&](std::int64_t part, int worker) {
    const std::int64_t first = part * sum_columns, count = std::min(sum_columns, task.m - first);
    const auto place = [&](int number) { return Place{scratch_of(worker) + number * sum_columns, sum_columns}; };
    for (int range = 0; range < std::ssize(grid.ranges); ++range) {
      float* const to = place(place_in_tree(range)).data;
      bool begun = false;
      for (const IndexRun& run : grid.ranges[static_cast<std::size_t>(range)]) {
        if (run.count == 0) continue;
        task.sum_rows(at(task.a, task.a_type, run.first * task.a_stride + first), task.a_stride, run.count, count, to, begun);
        begun = true;
      }
      if (!begun) std::fill_n(to, count, 0.0F);
      merge_behind(range, [&](int below, int above) { add(place(below), place(above), 1, count); });
    }
    float* const sums = task.sums + first;
    if (task.accumulate) return add({sums, count}, place(0), 1, count);
    std::copy_n(place(0).data, count, sums);
  });
}

}  // namespace lockstep::ops::cpu
