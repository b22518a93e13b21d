#include "parallel/zero/resident_parameters.h"

#include <fmt/format.h>

namespace lockstep::parallel {

Lease ResidentParameters::lease(const layout::Access& access) {
  if (!order_.empty()) {
    const bool expected = next_ < order_.size() && order_[next_] == access;
    if (!expected)
      throw BrokenRule(fmt::format("lease {} of a step follows the access order (unit {})", next_, access.part.unit.value));
    ++next_;
  }
  const auto index = static_cast<std::size_t>(access.part.unit.value);
  const layout::Range& elements = access.part.elements;
  return {this, access, memory_.weights[index].flat(elements.first, elements.count), packed_[index]};
}

void ResidentParameters::add_packed(UnitIndex unit, const PackedMatrix& matrix) {
  packed_[static_cast<std::size_t>(unit.value)].push_back(matrix);
}

// What was packed is read anew: new weights lie in rows.
void ResidentParameters::updated() {
  for (std::vector<PackedMatrix>& matrices : packed_) matrices.clear();
}

void ResidentParameters::begin(const std::vector<layout::Access>& order) {
  order_ = order;
  next_ = 0;
}

ParameterStore::Shard ResidentParameters::shard(UnitIndex unit) {
  const auto index = static_cast<std::size_t>(unit.value);
  const Tensor& weights = memory_.weights[index];
  return {memory_.masters.empty() ? weights : memory_.masters[index], weights, 0};
}

void ResidentParameters::release(const layout::Access& /*access*/) noexcept {}

}  // namespace lockstep::parallel
