#include "parallel/parameter_memory.h"

namespace lockstep::parallel {

ParameterMemory::ParameterMemory(std::vector<layout::Unit> all, const WeightStorage& kept, const layout::ParallelPlan& plan)
    : units(std::move(all)), storage(kept), weights(units.size()), masters(kept.owned() == kept.type ? 0 : units.size()) {
  ensure(plan.parameters == layout::Placement{}, "weights lie whole on their device");
}

void ParameterMemory::declare(Arena& weights_at, Arena& masters_at) {
  const auto declare_all = [&](std::vector<Tensor>& tensors, Arena& arena, DType type) {
    for (std::size_t i = 0; i < tensors.size(); ++i) arena.declare(tensors[i], units[i].name, Shape{units[i].elements}, type);
  };
  declare_all(weights, weights_at, storage.type);
  declare_all(masters, masters_at, storage.owned());
}

}  // namespace lockstep::parallel
