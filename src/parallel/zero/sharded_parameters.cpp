#include "parallel/zero/sharded_parameters.h"

#include <algorithm>
#include <utility>

namespace lockstep::parallel {
namespace {

constexpr layout::Part nothing{UnitIndex{-1}, {}};

}  // namespace

ShardedParameters::ShardedParameters(const ParameterMemory& memory, comm::Communicator& group)
    : memory_(memory), group_(group), counts_(static_cast<std::size_t>(group.size())) {
  ensure(memory.cut.parts == group.size(), "each rank of the group has a part of the weights");
  for (const GatherMemory::Class& kind : memory.gathers.classes) {
    std::vector<Slot>& slots = slots_.emplace_back();
    for (const Tensor& place : kind.slots) slots.push_back({&place});
  }
}

Lease ShardedParameters::lease(const layout::Access& access) {
  order_.take(access);
  Slot* slot = find(access.part);
  if (slot == nullptr) {
    slot = free_slot(access.part.unit, true);
    ensure(slot != nullptr, "no more is leased at a time than there are places for");
    gather(*slot, access.part);
  }
  slot->arriving.wait();
  ++slot->leases;
  slot->awaited = false;
  slot->used = ++clock_;
  if (!order_.announced()) learn(access.part);
  look_ahead(access.part);
  return {this, access, slot->memory->flat(0, access.part.elements.count)};
}

ShardedParameters::Slot* ShardedParameters::find(const layout::Part& part) {
  std::vector<Slot>& slots = slots_of(part.unit);
  const auto found = std::ranges::find(slots, part, &Slot::part);
  return found == slots.end() ? nullptr : &*found;
}

ShardedParameters::Slot* ShardedParameters::free_slot(UnitIndex unit, bool awaited) {
  Slot* best = nullptr;
  for (Slot& slot : slots_of(unit)) {
    if (slot.leases > 0 || (slot.awaited && !awaited)) continue;
    const auto rank = [](const Slot& s) { return std::pair(s.awaited, s.used); };
    if (best == nullptr || rank(slot) < rank(*best)) best = &slot;
  }
  return best;
}

void ShardedParameters::gather(Slot& slot, const layout::Part& part) {
  const auto u = static_cast<std::size_t>(part.unit.value);
  const auto share = [&](int rank) {
    return layout::overlap(layout::range_of(memory_.units[u], rank, group_.size()), part.elements);
  };
  for (int rank = 0; rank < group_.size(); ++rank) counts_[static_cast<std::size_t>(rank)] = share(rank).count;
  const layout::Range held = memory_.cut.held(memory_.units[u]), mine = share(group_.rank());
  slot.arriving.wait();
  slot.part = part;
  slot.arriving = group_.all_gather(slot.memory->flat(0, part.elements.count),
                                    memory_.weights[u].flat(mine.count > 0 ? mine.first - held.first : 0, mine.count), counts_);
  gathered_ += part.elements.count;
}

void ShardedParameters::look_ahead(const layout::Part& part) {
  int left = memory_.gathers.ahead;
  if (order_.announced()) {
    for (const layout::Access& next : order_.coming().first(std::min(order_.coming().size(), static_cast<std::size_t>(left))))
      if (!gather_ahead(next.part)) return;
    return;
  }
  forget_awaited();  // what was expected and did not come
  for (const layout::Part* next = follower(part); next != nullptr && left > 0; next = follower(*next), --left)
    if (!gather_ahead(*next)) return;
}

bool ShardedParameters::gather_ahead(const layout::Part& part) {
  Slot* slot = find(part);
  if (slot == nullptr) {
    slot = free_slot(part.unit, false);
    if (slot == nullptr) return false;
    gather(*slot, part);
  }
  slot->awaited = slot->leases == 0;
  return true;
}

void ShardedParameters::learn(const layout::Part& part) {
  const layout::Part before = std::exchange(last_, part);
  if (before == nothing) return;
  const auto known = std::ranges::find(followers_, before, &Follower::part);
  if (known != followers_.end()) {
    known->next = part;
  } else {
    followers_.push_back({before, part});
  }
}

const layout::Part* ShardedParameters::follower(const layout::Part& part) const {
  const auto known = std::ranges::find(followers_, part, &Follower::part);
  return known == followers_.end() ? nullptr : &known->next;
}

void ShardedParameters::forget_awaited() {
  for (std::vector<Slot>& slots : slots_) {
    for (Slot& slot : slots) slot.awaited = false;
  }
}

void ShardedParameters::wait_for_all() {
  for (std::vector<Slot>& slots : slots_) {
    for (Slot& slot : slots) slot.arriving.wait();
  }
}

void ShardedParameters::begin(const std::vector<layout::Access>& order) {
  wait_for_all();
  forget_awaited();
  order_.begin(order);
  last_ = nothing;
}

ParameterStore::Shard ShardedParameters::shard(UnitIndex unit) {
  wait_for_all();  // other ranks read this part
  const auto u = static_cast<std::size_t>(unit.value);
  const Tensor& published = memory_.weights[u];
  return {memory_.master(unit, published), published, memory_.cut.held(memory_.units[u]).first};
}

void ShardedParameters::updated() {
  wait_for_all();
  for (std::vector<Slot>& slots : slots_) {
    for (Slot& slot : slots) {
      ensure(slot.leases == 0, "weights that are leased do not change");
      slot.part = nothing;
    }
  }
}

void ShardedParameters::add_packed(UnitIndex /*unit*/, const PackedMatrix& /*matrix*/) {
  throw BrokenRule("no rank keeps a unit whole, to pack it");
}

void ShardedParameters::release(const layout::Access& access) noexcept { --find(access.part)->leases; }

}  // namespace lockstep::parallel
