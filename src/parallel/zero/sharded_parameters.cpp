#include "parallel/zero/sharded_parameters.h"

#include <algorithm>
#include <utility>

namespace lockstep::parallel {
namespace {

constexpr layout::Part nothing{UnitIndex{-1}, {}};

}  // namespace

ShardedParameters::ShardedParameters(const ParameterMemory& memory, comm::Communicator& group, Stream& stream)
    : memory_(memory), group_(group), stream_(stream), counts_(static_cast<std::size_t>(group.size())) {
  ensure(memory.cut.parts == group.size(), "each rank of the group has a part of the weights");
  for (const GatherMemory::Class& kind : memory.gathers.classes) {
    std::vector<Slot>& slots = slots_.emplace_back();
    for (std::size_t i = 0; i < std::max(kind.slots.size(), kind.brought.size()); ++i)
      slots.push_back({kind.slots.empty() ? nullptr : &kind.slots[i], kind.brought.empty() ? nullptr : &kind.brought[i]});
  }
}

Lease ShardedParameters::lease(const layout::Access& access) {
  order_.take(access);
  Slot* slot = find(access.part);
  if (slot == nullptr) {
    slot = free_slot(access.part, true);
    ensure(slot != nullptr, "no more is leased at a time than there are places for");
    fetch(*slot, access.part);
  }
  gather(*slot);
  slot->arriving.wait();
  ++slot->leases;
  slot->awaited = false;
  slot->used = ++clock_;
  if (!order_.announced()) learn(access.part);
  look_ahead(access.part);
  return {this, access, leased(*slot)};
}

ShardedParameters::Slot* ShardedParameters::find(const layout::Part& part) {
  std::vector<Slot>& slots = slots_of(part);
  const auto found = std::ranges::find(slots, part, &Slot::part);
  return found == slots.end() ? nullptr : &*found;
}

ShardedParameters::Slot* ShardedParameters::free_slot(const layout::Part& part, bool awaited) {
  Slot* best = nullptr;
  for (Slot& slot : slots_of(part)) {
    if (slot.leases > 0 || (slot.awaited && !awaited)) continue;
    if (best == nullptr || rather(slot, *best)) best = &slot;
  }
  return best;
}

bool ShardedParameters::rather(const Slot& slot, const Slot& other) const {
  if (slot.awaited != other.awaited) return other.awaited;
  if ((slot.part == nothing) != (other.part == nothing)) return slot.part == nothing;
  // Passes without an order go round: what was leased last is needed last.
  if (!order_.announced()) return slot.used > other.used;
  const std::size_t due = order_.leases_until(slot.part), other_due = order_.leases_until(other.part);
  return due != other_due ? due > other_due : slot.used < other.used;
}

void ShardedParameters::fetch(Slot& slot, const layout::Part& part) {
  slot.arriving.wait();
  if (memory_.spill != nullptr) memory_.spill->finish(slot.bringing);  // what was expected and did not come
  slot.part = part;
  slot.due = true;
  gathered_ += part.count();
  if (part.strided()) return put_together(slot);
  const auto u = static_cast<std::size_t>(part.unit.value);
  const layout::Range held = memory_.cut.held(memory_.units[u]), mine = share(part, group_.rank());
  const layout::Range within{mine.count > 0 ? mine.first - held.first : 0, mine.count};
  if (slot.brought != nullptr) return bring(slot, within);
  slot.own = memory_.weights[u].flat(within.first, within.count);
  gather(slot);
}

layout::Range ShardedParameters::share(const layout::Part& part, int rank) const {
  const layout::Range held = layout::range_of(memory_.units[static_cast<std::size_t>(part.unit.value)], rank, group_.size());
  if (!part.strided()) return layout::overlap(held, part.elements);
  const std::int64_t first = part.count_before(held.first);
  return {first, part.count_before(held.end()) - first};
}

void ShardedParameters::put_together(Slot& slot) {
  const auto u = static_cast<std::size_t>(slot.part.unit.value);
  const layout::Range held = memory_.cut.held(memory_.units[u]), mine = share(slot.part, group_.rank());
  slot.own = slot.memory->flat(mine.first, mine.count);
  if (slot.brought == nullptr) {
    pick(slot, memory_.weights[u], held);
    return gather(slot);
  }
  const layout::Range needed = layout::overlap(held, slot.part.elements);
  const int number = memory_.numbers[u];
  for (std::int64_t at = needed.first; at < needed.end();) {
    const layout::Range range = memory_.spill->cover(number, {at - held.first, 1}),
                        elements{held.first + range.first, range.count};
    at = elements.end();
    if (slot.part.count_before(elements.first) == slot.part.count_before(elements.end())) continue;
    const Mirror to = Spill::part(*slot.brought, 0, Spill::bytes_of(range.count, dtype()));
    slot.bringing = memory_.spill->read(number, range, to);
    memory_.spill->finish(slot.bringing);
    pick(slot, typed(to.device, 0, range.count, dtype()), elements);
  }
}

void ShardedParameters::pick(const Slot& slot, const Tensor& values, const layout::Range& elements) {
  const layout::Part& part = slot.part;
  const std::int64_t end = part.count_before(elements.end()), columns = part.columns.count;
  for (std::int64_t at = part.count_before(elements.first); at < end;) {
    const std::int64_t column = at % columns, count = std::min(columns - column, end - at);
    const std::int64_t from = part.elements.first + at / columns * part.row + part.columns.first + column;
    copy(stream_, slot.memory->flat(at, count), values.flat(from - elements.first, count));
    at += count;
  }
}

void ShardedParameters::bring(Slot& slot, const layout::Range& mine) {
  const int number = memory_.numbers[static_cast<std::size_t>(slot.part.unit.value)];
  layout::Range cover{};
  if (mine.count > 0) {
    cover = memory_.spill->cover(number, mine);
    const Mirror to = Spill::part(*slot.brought, 0, Spill::bytes_of(cover.count, dtype()));
    slot.bringing = memory_.spill->read(number, cover, to);
  }
  const auto size = static_cast<std::int64_t>(size_of(dtype()));
  const Mirror there = Spill::part(*slot.brought, 0, (mine.first - cover.first + mine.count) * size);
  slot.own = typed(there.device, (mine.first - cover.first) * size, mine.count, dtype());
}

void ShardedParameters::gather(Slot& slot) {
  if (!slot.due) return;
  slot.due = false;
  if (memory_.spill != nullptr) memory_.spill->finish(slot.bringing);
  if (slot.memory == nullptr) return;
  for (int rank = 0; rank < group_.size(); ++rank) counts_[static_cast<std::size_t>(rank)] = share(slot.part, rank).count;
  slot.arriving = group_.moving(comm::Purpose::weights).all_gather(leased(slot), slot.own, counts_);
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
    slot = free_slot(part, false);
    if (slot == nullptr) return false;
    fetch(*slot, part);
  } else if (slot->memory != nullptr) {
    gather(*slot);  // it was brought during an earlier lease
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
    for (Slot& slot : slots) {
      slot.arriving.wait();
      if (memory_.spill != nullptr) memory_.spill->finish(slot.bringing);
    }
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
  const Tensor& published = memory_.weights[u];  // none where it lies elsewhere
  return memory_.shard(unit, published, memory_.cut.held(memory_.units[u]).first);
}

void ShardedParameters::updated(Changed what) {
  wait_for_all();
  for (std::vector<Slot>& slots : slots_) {
    for (Slot& slot : slots) {
      ensure(slot.leases == 0, "weights that are leased do not change");
      const bool there = slot.part != nothing;
      if (there && what == Changed::trained && !memory_.units[static_cast<std::size_t>(slot.part.unit.value)].trained) continue;
      slot.part = nothing;
      slot.due = false;
    }
  }
}

void ShardedParameters::add_packed(UnitIndex /*unit*/, const PackedMatrix& /*matrix*/) {
  throw BrokenRule("no rank keeps a unit whole, to pack it");
}

void ShardedParameters::release(const layout::Access& access) noexcept { --find(access.part)->leases; }

}  // namespace lockstep::parallel
