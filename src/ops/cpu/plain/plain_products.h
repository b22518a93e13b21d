#pragma once

// The layers' products as plain loops (kernels.products=plain). They are blocked for the caches and vectorised by the compiler,
// without packed panels, tiles of several rows or fetching ahead. B is read in place, but copied first where it is transposed or
// bf16. The additions have the order of our own product, and so its bits. How much slower the loops are tells what that product
// is worth.

#include <cstdint>

#include "device/memory.h"
#include "ops/cpu/product/product.h"

namespace lockstep::ops::cpu {

/// Columns of an area of C.
inline constexpr std::int64_t plain_columns = 64;

/// Computes an area of C.
using PlainArea = void (*)(const ProductTask& task, const Area& area, float* scratch);

class PlainProducts {
 public:
  /// `team` must outlive it.
  PlainProducts(Team& team, Isa isa, MemorySource& memory);

  /// As Product::run(). Two bf16 operands are added in the order of fp32 alone. No part of B may lie in tiles.
  void run(const ProductTask& task);
  /// run() on the calling worker alone, inside a call of the team.
  void run_alone(const ProductTask& task, int worker);
  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

 private:
  float* scratch_of(int worker) const;

  Team& team_;
  PlainArea area_;
  Memory memory_;
};

}  // namespace lockstep::ops::cpu
