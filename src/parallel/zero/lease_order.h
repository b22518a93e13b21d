#pragma once

// The leases of a step, held against the order that was announced for it.

#include <span>
#include <vector>

#include "layout/access_order.h"

namespace lockstep::parallel {

class LeaseOrder {
 public:
  /// From now on; an empty order means any.
  void begin(const std::vector<layout::Access>& order);
  /// A lease begins. Throws BrokenRule when another one was announced.
  void take(const layout::Access& access);
  bool announced() const { return !order_.empty(); }
  /// How many leases of an announced order come before the next one of `part`; all that are left where there is none.
  std::size_t leases_until(const layout::Part& part) const;
  /// What is still to come of an announced order.
  std::span<const layout::Access> coming() const { return std::span(order_).subspan(next_); }

 private:
  std::vector<layout::Access> order_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::parallel
