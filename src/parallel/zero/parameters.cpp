#include "parallel/zero/parameters.h"

#include <fmt/format.h>

namespace lockstep::parallel {

ZeroParameters::ZeroParameters(std::vector<layout::Unit> units, const WeightStorage& storage)
    : units_(std::move(units)),
      storage_(storage),
      flat_(units_.size()),
      masters_(storage.owned() == storage.type ? 0 : units_.size()),
      packed_(units_.size()) {}

void ZeroParameters::declare(Arena& arena) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    arena.declare(flat_[i], units_[i].name, Shape{units_[i].elements}, storage_.type);
  }
}

void ZeroParameters::declare_masters(Arena& arena) {
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    arena.declare(masters_[i], units_[i].name, Shape{units_[i].elements}, storage_.owned());
  }
}

Lease ZeroParameters::lease(UnitIndex unit, layout::Pass pass) {
  if (!order_.empty()) {
    const bool expected = next_ < order_.size() && order_[next_] == layout::Access{unit, pass};
    ensure(expected, fmt::format("lease {} of a step follows the access order (unit {})", next_, unit.value));
    ++next_;
  }
  const auto index = static_cast<std::size_t>(unit.value);
  return {this, unit, flat_[index], packed_[index]};
}

void ZeroParameters::add_packed(UnitIndex unit, const PackedMatrix& matrix) {
  packed_[static_cast<std::size_t>(unit.value)].push_back(matrix);
}

// What was packed is read anew: new weights lie in rows.
void ZeroParameters::updated() {
  for (std::vector<PackedMatrix>& matrices : packed_) matrices.clear();
}

void ZeroParameters::begin(const std::vector<layout::Access>& order) {
  order_ = order;
  next_ = 0;
}

ParameterStore::Shard ZeroParameters::shard(UnitIndex unit) {
  const auto index = static_cast<std::size_t>(unit.value);
  return {masters_.empty() ? flat_[index] : masters_[index], flat_[index], 0};
}

void ZeroParameters::release(UnitIndex /*unit*/) noexcept {}

}  // namespace lockstep::parallel
