#include "parallel/parameter_memory.h"

#include <algorithm>

namespace lockstep::parallel {

ParameterMemory::ParameterMemory(std::vector<layout::Unit> all, const WeightStorage& kept, const layout::ParallelPlan& plan,
                                 const layout::Coordinates& at, const std::vector<arch::LeaseClass>& classes)
    : units(std::move(all)),
      storage(kept),
      cut(layout::state_cut(plan, at, plan.optimizer.cut)),
      tier(plan.parameters.tier),
      sharded(plan.parameters.cut != layout::CutOver::none || tier != layout::Tier::device),
      weights(units.size()),
      masters(kept.owned() == kept.type || plan.optimizer.tier != layout::Tier::device ? 0 : units.size()) {
  if (!sharded) return;
  ensure(tier == layout::Tier::device || plan.parameters.cut != layout::CutOver::none || plan.dp * plan.cp == 1,
         "weights that lie elsewhere are cut over the ranks that share them");
  ensure(plan.parameters.cut == plan.optimizer.cut, "a rank updates the weights that it keeps");
  gathers.ahead = plan.prefetch;
  gathers.class_of.resize(units.size());
  gathers.class_of_tiles.resize(units.size(), GatherMemory::none);
  for (const arch::LeaseClass& kind : classes) {
    std::vector<std::size_t>& class_of = kind.tiles ? gathers.class_of_tiles : gathers.class_of;
    for (const UnitIndex unit : kind.units) class_of[static_cast<std::size_t>(unit.value)] = gathers.classes.size();
    const int in_turns = kind.at_once + (kind.sequence ? plan.prefetch + plan.kept : 0);
    const int slots = plan.reshard_after_forward ? std::min(kind.parts, in_turns) : kind.parts;
    const auto count = static_cast<std::size_t>(slots), moved = tier == layout::Tier::device ? 0 : count;
    const bool in_place = moved > 0 && cut.whole() && !kind.strided;
    gathers.classes.push_back({.elements = kind.elements,
                               .name = kind.tiles ? "gathered tiles" : "gathered",
                               .strided = kind.strided,
                               .contiguous = kind.contiguous,
                               .slots = std::vector<Tensor>(in_place ? 0 : count),
                               .brought = std::vector<Mirror>(moved)});
  }
}

ParameterStore::Shard ParameterMemory::shard(UnitIndex unit, const Tensor& published, std::int64_t first) const {
  ParameterStore::Shard shard{.master = {}, .published = published, .first = first};
  if (!masters.empty() && units[static_cast<std::size_t>(unit.value)].trained) {
    (halves() ? shard.low : shard.master) = masters[static_cast<std::size_t>(unit.value)];
  } else if (storage.owned() == storage.type || !units[static_cast<std::size_t>(unit.value)].trained) {
    shard.master = published;
  }
  return shard;
}

// A part of a unit may begin and end within ranges.
std::int64_t ParameterMemory::most_brought(std::size_t kind, std::int64_t range) const {
  std::int64_t most = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (gathers.class_of[u] == kind || gathers.class_of_tiles[u] == kind) most = std::max(most, cut.held(units[u]).count);
  }
  const GatherMemory::Class& parts = gathers.classes[kind];
  const std::int64_t whole = parts.contiguous > 0 ? parts.contiguous + 2 * range : 0;
  return std::min(most, std::max(whole, parts.strided ? range : 0));
}

void ParameterMemory::declare(Arena& weights_at, Arena& masters_at, Spill* elsewhere, std::int64_t range) {
  if (tier != layout::Tier::device) {
    ensure(elsewhere != nullptr, "weights that lie elsewhere have a place there");
    spill = elsewhere;
    numbers =
        declare_units(*spill, units, cut, {.tier = tier, .what = "weights", .of = {}, .type = storage.type, .range = range});
  }
  for (std::size_t i = 0; i < weights.size() && spill == nullptr; ++i) {
    const Arena::InLayer in(weights_at, units[i].name);
    weights_at.declare(weights[i], "weights", Shape{sharded ? cut.held(units[i]).count : units[i].elements}, storage.type);
  }
  for (std::size_t c = 0; c < gathers.classes.size(); ++c) {
    GatherMemory::Class& kind = gathers.classes[c];
    for (Tensor& slot : kind.slots) weights_at.declare(slot, std::string(kind.name), Shape{kind.elements}, storage.type);
    const std::int64_t bytes = Spill::bytes_of(most_brought(c, range), storage.type);
    for (Mirror& slot : kind.brought) Spill::declare(weights_at, slot, "brought", bytes);
  }
  for (std::size_t i = 0; i < masters.size(); ++i) {
    if (!units[i].trained) continue;
    const Arena::InLayer in(masters_at, units[i].name);
    masters_at.declare(masters[i], halves() ? "lower halves of master weights" : "master weights",
                       Shape{cut.held(units[i]).count}, halves() ? DType::u16 : storage.owned());
  }
}

}  // namespace lockstep::parallel
