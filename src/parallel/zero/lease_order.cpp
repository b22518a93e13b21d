#include "parallel/zero/lease_order.h"

#include <fmt/format.h>

namespace lockstep::parallel {

void LeaseOrder::begin(const std::vector<layout::Access>& order) {
  order_ = order;
  next_ = 0;
}

void LeaseOrder::take(const layout::Access& access) {
  if (!announced()) return;
  const bool expected = next_ < order_.size() && order_[next_] == access;
  if (!expected)
    throw BrokenRule(fmt::format("lease {} of a step follows the access order (unit {})", next_, access.part.unit.value));
  ++next_;
}

}  // namespace lockstep::parallel
