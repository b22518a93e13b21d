#pragma once

// What products can do in passes of their own, beside or behind the product itself. Bit-neutral.

#include <cstdint>
#include <functional>

#include "device/memory.h"
#include "ops/cpu/product/product.h"

namespace lockstep::ops::cpu {

/// task.sums, in the blocks that our own product hands over, so that these sums have one order.
void sum_rows(const ProductTask& task, Team& team);

/// Products whose finish is a pass behind them: sums of so many rows as fit its memory wait for it.
class FinishApart {
 public:
  /// `team` must outlive it.
  FinishApart(Team& team, MemorySource& memory);

  /// Whether the sums of a row fit.
  static bool fits(const ProductTask& task);
  /// The task, which has a finish, in parts of its rows without one, each followed by the pass. `product` runs a part.
  void run(const ProductTask& task, const std::function<void(const ProductTask& part)>& product);
  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

 private:
  Team& team_;
  Memory memory_;
};

}  // namespace lockstep::ops::cpu
