#pragma once

// The leases of a step, held against the order that was announced for it.

#include <span>
#include <vector>

#include "layout/access_order.h"

namespace lockstep::parallel {

class LeaseOrder {
 public:
  /// Leases follow `order` from now on; an empty order means any.
  void begin(const std::vector<layout::Access>& order);
  /// A lease begins. Throws BrokenRule when another one was announced.
  void take(const layout::Access& access);
  bool announced() const { return !order_.empty(); }
  /// How many leases of an announced order come before the next lease of `part`. It is the number of all that are left where
  /// `part` does not come again.
  std::size_t leases_until(const layout::Part& part) const;
  /// The leases of an announced order that are still to come.
  std::span<const layout::Access> coming() const { return std::span(order_).subspan(next_); }

 private:
  std::vector<layout::Access> order_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::parallel
