#pragma once

// Sums whose order no layout changes (numerics.md section 3.8). An index that ranks may divide is cut into fixed ranges. Each
// range is summed by itself from zero. The ranges' sums are added as a binary tree over the ranges' numbers (base/sum_tree.h). A
// rank that has a half, a quarter or an eighth of the ranges has a whole branch of the tree.

#include <cstdint>
#include <vector>

namespace lockstep::ops {

/// Values [first, first + count) of an index.
struct IndexRun {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
};

struct SumGrid {
  /// The ranges that a rank has, a power of two of them, in order. Each is summed run by run; one without elements is zero.
  std::vector<std::vector<IndexRun>> ranges;
};

}  // namespace lockstep::ops
