#include "parallel/parameter_memory.h"

#include <algorithm>

namespace lockstep::parallel {

ParameterMemory::ParameterMemory(std::vector<layout::Unit> all, const WeightStorage& kept, const layout::ParallelPlan& plan,
                                 const layout::Coordinates& at, const std::vector<arch::LeaseClass>& classes)
    : units(std::move(all)),
      storage(kept),
      cut(layout::state_cut(plan, at, plan.optimizer.cut)),
      sharded(plan.parameters.cut != layout::CutOver::none),
      weights(units.size()),
      masters(kept.owned() == kept.type || plan.optimizer.tier != layout::Tier::device ? 0 : units.size()) {
  ensure(plan.parameters.tier == layout::Tier::device, "weights lie on their device");
  if (!sharded) return;
  ensure(plan.parameters.cut == plan.optimizer.cut, "a rank updates the weights that it keeps");
  gathers.ahead = plan.prefetch;
  gathers.class_of.resize(units.size());
  for (const arch::LeaseClass& kind : classes) {
    for (const UnitIndex unit : kind.units) gathers.class_of[static_cast<std::size_t>(unit.value)] = gathers.classes.size();
    const int in_turns = kind.at_once + (kind.sequence ? plan.prefetch : 0);
    const int slots = plan.reshard_after_forward ? std::min(kind.parts, in_turns) : kind.parts;
    gathers.classes.push_back({kind.elements, std::vector<Tensor>(static_cast<std::size_t>(slots))});
  }
}

Tensor ParameterMemory::master(UnitIndex unit, const Tensor& published) const {
  if (!masters.empty()) return masters[static_cast<std::size_t>(unit.value)];
  return storage.owned() == storage.type ? published : Tensor{};
}

void ParameterMemory::declare(Arena& weights_at, Arena& masters_at) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Arena::InLayer in(weights_at, units[i].name);
    weights_at.declare(weights[i], "weights", Shape{sharded ? cut.held(units[i]).count : units[i].elements}, storage.type);
  }
  for (GatherMemory::Class& kind : gathers.classes) {
    for (Tensor& slot : kind.slots) weights_at.declare(slot, "gathered", Shape{kind.elements}, storage.type);
  }
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const Arena::InLayer in(masters_at, units[i].name);
    masters_at.declare(masters[i], "master weights", Shape{cut.held(units[i]).count}, storage.owned());
  }
}

}  // namespace lockstep::parallel
