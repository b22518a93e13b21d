#include "parallel/zero/parameters.h"

#include <fmt/format.h>

namespace lockstep::parallel {

ZeroParameters::ZeroParameters(std::vector<layout::Unit> units) : units_(std::move(units)), flat_(units_.size()) {}

void ZeroParameters::declare(Arena& arena) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    arena.declare(flat_[i], units_[i].name, Shape{units_[i].elements}, DType::f32);
  }
}

Lease ZeroParameters::lease(UnitIndex unit, layout::Pass pass) {
  if (!order_.empty()) {
    const bool expected = next_ < order_.size() && order_[next_] == layout::Access{unit, pass};
    ensure(expected, fmt::format("lease {} of a step follows the access order (unit {})", next_, unit.value));
    ++next_;
  }
  return {this, unit, flat_[static_cast<std::size_t>(unit.value)]};
}

void ZeroParameters::begin(const std::vector<layout::Access>& order) {
  order_ = order;
  next_ = 0;
}

ParameterStore::Shard ZeroParameters::shard(UnitIndex unit) {
  const Tensor& flat = flat_[static_cast<std::size_t>(unit.value)];
  return {flat, flat, 0};
}

void ZeroParameters::release(UnitIndex /*unit*/) noexcept {}

}  // namespace lockstep::parallel
