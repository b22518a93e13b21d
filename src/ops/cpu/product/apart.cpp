#include "ops/cpu/product/apart.h"

#include <algorithm>

#include "base/checked.h"

namespace lockstep::ops::cpu {
namespace {

// So many sums wait for the finish. They are enough rows of a wide layer for a library to be fast. They still fit a cache of the
// processor.
constexpr std::int64_t sums_floats = std::int64_t{1} << 20;
// What a worker takes at a time.
constexpr std::int64_t finish_rows = 8, sum_columns = 128;

const std::byte* at(const void* from, DType type, std::int64_t element) {
  return static_cast<const std::byte*>(from) + element * static_cast<std::int64_t>(size_of(type));
}

}  // namespace

void sum_rows(const ProductTask& task, Team& team) {
  team.for_each(div_up(task.m, sum_columns), [&](std::int64_t tile, int) {
    const std::int64_t first = tile * sum_columns, count = std::min(sum_columns, task.m - first);
    for (std::int64_t k = 0; k < task.k; k += k_block) {
      const std::byte* from = at(task.a, task.a_type, k * task.a_stride + first);
      task.sum_rows(from, task.a_stride, std::min(k_block, task.k - k), count, task.sums + first, task.accumulate || k > 0);
    }
  });
}

FinishApart::FinishApart(Team& team, MemorySource& memory) : team_(team), memory_(memory.allocate(sums_floats * sizeof(float))) {}

bool FinishApart::fits(const ProductTask& task) { return task.n <= sums_floats; }

void FinishApart::run(const ProductTask& task, const std::function<void(const ProductTask& part)>& product) {
  auto* sums = reinterpret_cast<float*>(memory_.data());
  const std::int64_t most = std::max<std::int64_t>(1, sums_floats / task.n);
  for (std::int64_t row = 0; row < task.m; row += most) {
    ProductTask part = task;
    part.m = std::min(most, task.m - row);
    part.a = at(task.a, task.a_type, task.a_transposed ? row : row * task.a_stride);
    part.c = sums;
    part.c_stride = task.n;
    part.finish = {};
    part.onto = nullptr;
    part.accumulate = task.onto != nullptr;
    if (part.accumulate) {
      for (std::int64_t i = 0; i < part.m; ++i) std::copy_n(task.onto + (row + i) * task.onto_stride, task.n, sums + i * task.n);
    }
    product(part);
    team_.for_each(div_up(part.m, finish_rows), [&](std::int64_t tile, int) {
      const std::int64_t first = tile * finish_rows;
      const Area area{row + first, 0, std::min(finish_rows, part.m - first), task.n};
      task.finish.apply(task.finish.context, area, sums + first * task.n, task.n);
    });
  }
}

}  // namespace lockstep::ops::cpu
