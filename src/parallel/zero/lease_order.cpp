#include "parallel/zero/lease_order.h"

#include <fmt/format.h>

#include <algorithm>

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

std::size_t LeaseOrder::leases_until(const layout::Part& part) const {
  const std::span<const layout::Access> left = coming();
  return static_cast<std::size_t>(std::ranges::find(left, part, &layout::Access::part) - left.begin());
}

}  // namespace lockstep::parallel
