#pragma once

// Sums by the ranges of a grid (ops/sum_grid.h, base/sum_tree.h), in registers.

#include <cuda_runtime.h>

#include <cstdint>

#include "base/checked.h"
#include "ops/check.h"
#include "ops/sum_grid.h"

namespace lockstep::ops::cuda {

/// Adds up to eight sums of `size` floats that come one after another. The order is ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)).
template <int size>
struct SumTree {
  float waits[3][size];

  /// Takes sum `number`. Behind the last of 2^k, `sum` is the sum of all.
  __device__ __forceinline__ void put(int number, float (&sum)[size]) {
    if (number % 2 == 0) return keep(waits[0], sum);
    add(waits[0], sum);
    if (number / 2 % 2 == 0) return keep(waits[1], sum);
    add(waits[1], sum);
    if (number / 4 % 2 == 0) return keep(waits[2], sum);
    add(waits[2], sum);
  }

 private:
  __device__ static __forceinline__ void keep(float (&to)[size], const float (&sum)[size]) {
    for (int i = 0; i < size; ++i) to[i] = sum[i];
  }
  __device__ static __forceinline__ void add(const float (&below)[size], float (&sum)[size]) {
    for (int i = 0; i < size; ++i) sum[i] = below[i] + sum[i];
  }
};

/// A grid as kernels take it: by value, since they cannot read the host's memory.
struct GridRuns {
  static constexpr int most_ranges = 8, most_runs = 1000;
  struct Run {
    std::int32_t first, count;
  };
  int ranges = 0;
  std::int32_t ends[most_ranges] = {};  ///< behind each range's last run
  Run runs[most_runs];
};

/// Throws BrokenRule where the grid has more ranges or runs than a kernel is given.
inline GridRuns runs_of(const SumGrid& grid) {
  GridRuns result;
  demand(grid.ranges.size() <= GridRuns::most_ranges, "grid", "it has at most eight ranges");
  std::int32_t count = 0;
  for (const std::vector<IndexRun>& range : grid.ranges) {
    for (const IndexRun& run : range) {
      if (run.count == 0) continue;
      demand(count < GridRuns::most_runs, "grid", "it has at most a thousand runs");
      result.runs[count++] = {narrow<std::int32_t>(run.first), narrow<std::int32_t>(run.count)};
    }
    result.ends[result.ranges++] = count;
  }
  return result;
}

}  // namespace lockstep::ops::cuda
