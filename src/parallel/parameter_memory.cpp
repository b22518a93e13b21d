#include "parallel/parameter_memory.h"

namespace lockstep::parallel {

ParameterMemory::ParameterMemory(std::vector<layout::Unit> all, const WeightStorage& kept, const layout::ParallelPlan& plan,
                                 const layout::Coordinates& at)
    : units(std::move(all)),
      storage(kept),
      cut(layout::state_cut(plan, at, plan.optimizer.cut)),
      weights(units.size()),
      masters(kept.owned() == kept.type ? 0 : units.size()) {
  ensure(plan.parameters == layout::Placement{}, "weights lie whole on their device");
}

void ParameterMemory::declare(Arena& weights_at, Arena& masters_at) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights_at.declare(weights[i], units[i].name, Shape{units[i].elements}, storage.type);
  for (std::size_t i = 0; i < masters.size(); ++i)
    masters_at.declare(masters[i], units[i].name, Shape{cut.held(units[i]).count}, storage.owned());
}

}  // namespace lockstep::parallel
