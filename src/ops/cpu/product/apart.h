#pragma once

// What products can do in passes of their own, beside or behind the product itself. No bit of a result depends on it.

#include <cstdint>
#include <functional>

#include "device/memory.h"
#include "ops/cpu/product/product.h"

namespace lockstep::ops::cpu {

/// Makes task.sums in the same blocks as our own product, so that the sums have the same order.
void sum_rows(const ProductTask& task, Team& team);

/// Products whose finish is a pass behind them. The product's sums wait for the pass, as many rows at a time as its memory holds.
class FinishApart {
 public:
  /// `team` must outlive it.
  FinishApart(Team& team, MemorySource& memory);

  /// Whether its memory holds the sums of a row.
  static bool fits(const ProductTask& task);
  /// Runs a task that has a finish. `product` runs some of its rows without the finish; the finish then follows as a pass.
  void run(const ProductTask& task, const std::function<void(const ProductTask& part)>& product);
  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

 private:
  Team& team_;
  Memory memory_;
};

}  // namespace lockstep::ops::cpu
