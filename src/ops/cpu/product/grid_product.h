#pragma once

// Products whose inner index is summed by the ranges of a grid (ops/sum_grid.h). A worker takes a tile of C and makes the product
// of each range for it. It adds these products while they are in its cache.

#include "device/memory.h"
#include "ops/cpu/product/product.h"
#include "ops/sum_grid.h"

namespace lockstep::ops::cpu {

class GridProduct {
 public:
  /// `product` outlives it.
  explicit GridProduct(Product& product) : product_(product) {}
  /// Takes its whole workspace from `memory`, once; before the first run().
  void take(MemorySource& memory);
  bool taken() const { return memory_.size() > 0; }

  /// As Product::run(), with k summed by `grid`, which has at most most_ranges ranges. An accumulating task adds the whole sum
  /// onto C. B does not lie in tiles. Uses the whole team.
  void run(const ProductTask& task, const SumGrid& grid);
  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

  static constexpr int most_ranges = 8;

 private:
  void run_tile(const ProductTask& task, const SumGrid& grid, const Area& area, int worker) const;
  void sum_rows(const ProductTask& task, const SumGrid& grid);
  float* scratch_of(int worker) const;

  Product& product_;
  Memory memory_;
};

}  // namespace lockstep::ops::cpu
