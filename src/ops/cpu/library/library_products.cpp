#include "ops/cpu/library/library_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace lockstep::ops::cpu {
namespace {

// Sums of so many elements wait for their epilogue: rows of a wide layer for the library to be fast, few enough to stay in cache.
constexpr std::int64_t sums_floats = std::int64_t{1} << 20;
// What a worker takes at a time.
constexpr std::int64_t finish_rows = 8, sum_columns = 128;

const std::byte* row_of(const void* from, DType type, std::int64_t row, std::int64_t stride) {
  return static_cast<const std::byte*>(from) + row * stride * static_cast<std::int64_t>(size_of(type));
}

}  // namespace

LibraryProducts::LibraryProducts(Product& ours, MemorySource& memory)
    : ours_(ours), library_(open_library(ours.team().size())), memory_(memory.allocate(sums_floats * sizeof(float))) {}

LibraryMatmul& LibraryProducts::matmul(const LibraryShape& shape) {
  std::unique_ptr<LibraryMatmul>& prepared = prepared_[shape];
  if (!prepared) prepared = library_->prepare(shape);
  if (!prepared) {
    throw UserError(
        fmt::format("numerics.products=library: {} has no {} products on this processor", library_->name(), name_of(shape.type)),
        "numerics.products=ours, or train.dtype=fp32");
  }
  return *prepared;
}

void LibraryProducts::run(const ProductTask& task) {
  const bool finished = task.finish.apply != nullptr;
  if (task.a_type != task.b_type || (finished && task.n > sums_floats)) return ours_.run(task);
  if (task.sums != nullptr) sum_rows(task);
  if (!finished) return run_rows(task, 0, task.m);
  const std::int64_t most = std::max<std::int64_t>(1, sums_floats / task.n);
  for (std::int64_t row = 0; row < task.m; row += most) {
    const std::int64_t rows = std::min(most, task.m - row);
    run_rows(task, row, rows);
    finish(task, row, rows);
  }
}

void LibraryProducts::run_rows(const ProductTask& task, std::int64_t row, std::int64_t rows) {
  const bool finished = task.finish.apply != nullptr;
  const LibraryShape shape{.m = rows,
                           .n = task.n,
                           .k = task.k,
                           .a_stride = task.a_stride,
                           .b_stride = task.b_stride,
                           .c_stride = finished ? task.n : task.c_stride,
                           .a_transposed = task.a_transposed,
                           .b_transposed = task.b_transposed,
                           .accumulate = task.accumulate || task.onto != nullptr,
                           .type = task.a_type};
  if (task.onto != nullptr) {
    auto* sums = reinterpret_cast<float*>(memory_.data());
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(task.onto + (row + i) * task.onto_stride, task.n, sums + i * task.n);
  }
  void* c = finished ? static_cast<void*>(memory_.data()) : task.c;
  matmul(shape).run(row_of(task.a, task.a_type, row, task.a_transposed ? 1 : task.a_stride), task.b, c);
}

void LibraryProducts::finish(const ProductTask& task, std::int64_t row, std::int64_t rows) {
  const auto* sums = reinterpret_cast<const float*>(memory_.data());
  ours_.team().for_each(div_up(rows, finish_rows), [&](std::int64_t tile, int) {
    const std::int64_t first = tile * finish_rows;
    const Area area{row + first, 0, std::min(finish_rows, rows - first), task.n};
    task.finish.apply(task.finish.context, area, sums + first * task.n, task.n);
  });
}

// In the blocks that our own product hands over, so that these sums have one order.
void LibraryProducts::sum_rows(const ProductTask& task) {
  ours_.team().for_each(div_up(task.m, sum_columns), [&](std::int64_t tile, int) {
    const std::int64_t first = tile * sum_columns, count = std::min(sum_columns, task.m - first);
    for (std::int64_t k = 0; k < task.k; k += k_block) {
      const std::byte* from = row_of(task.a, task.a_type, k * task.a_stride + first, 1);
      task.sum_rows(from, task.a_stride, std::min(k_block, task.k - k), count, task.sums + first, task.accumulate || k > 0);
    }
  });
}

}  // namespace lockstep::ops::cpu
