#include "parallel/zero/resident_state.h"

#include <array>
#include <limits>

#include "base/error.h"
#include "io/checksum.h"

namespace lockstep::parallel {

std::uint64_t StateHash::checksum(const Tensor& tensor, std::int64_t first) const {
  const auto of_part = [&](const Tensor& part, std::int64_t before) {
    return io::checksum({part.data, part.bytes()}, size_of(part.dtype), static_cast<std::uint64_t>(first + before));
  };
  if (pieces_ == nullptr) {
    ensure(!tensor || tensor.device.is_host(), "what a device has is hashed in pieces");
    return of_part(tensor, 0);
  }
  std::uint64_t sum = 0;
  pieces_->read(tensor, [&](const Tensor& piece, std::int64_t before) { sum += of_part(piece, before); });
  return sum;
}

void StateHash::add(const Tensor& tensor) { hash_ = hash_ * 31 + checksum(tensor, 0); }

void StateHash::add_part(const Tensor& tensor, std::int64_t first) { hash_ += checksum(tensor, first); }

void StateHash::demand_alike(comm::Communicator& group, bool compared) const {
  const auto number = static_cast<std::int64_t>(hash_);
  std::array<std::int64_t, 2> ends{number, number};
  if (!compared) ends = {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  group.host().all_reduce(view(std::span<std::int64_t>(ends).first(1), Shape{1}), comm::Reduction::min).wait();
  group.host().all_reduce(view(std::span<std::int64_t>(ends).last(1), Shape{1}), comm::Reduction::max).wait();
  if (ends[0] != ends[1]) throw SystemError("the ranks start with different weights, optimizer slots or numbers of updates");
}

void broadcast_checked(comm::Communicator& group, std::span<const Tensor> tensors) {
  if (group.size() == 1) return;
  StateHash hash;
  for (const Tensor& tensor : tensors) {
    group.broadcast(tensor, 0).wait();
    hash.add(tensor);
  }
  hash.demand_alike(group);
}

void SlotMemory::declare(Arena& arena, const std::vector<layout::Unit>& of, const layout::StateCut& cut) {
  units.assign(of.size(), {});
  for (std::size_t u = 0; u < of.size(); ++u) {
    if (!of[u].trained) continue;
    units[u].resize(names.size());
    const Arena::InLayer in(arena, of[u].name);
    for (std::size_t s = 0; s < names.size(); ++s) arena.declare(units[u][s], names[s], Shape{cut.held(of[u]).count}, type);
  }
}

std::span<const Tensor> ResidentState::slots_of(UnitIndex unit) const {
  if (!has_slots()) return {};
  return slots_.units[static_cast<std::size_t>(unit.value)];
}

layout::Range ResidentState::held(UnitIndex unit) const { return cut_.held(units()[static_cast<std::size_t>(unit.value)]); }

StateRange ResidentState::range_in_memory(UnitIndex unit, const Use& use, const layout::Range& part) {
  StateRange range{.unit = unit, .range = part};
  const auto within = [&](const Tensor& all, std::int64_t first) {
    return all ? all.flat(part.first - first, part.count) : Tensor{};
  };
  if (use.weights) {
    const ParameterStore::Shard weights = parameters_.shard(unit);
    range.master = within(weights.master, weights.first);
    range.published = within(weights.published, weights.first);
    range.low = within(weights.low, weights.first);
  }
  if (use.gradients) {
    const GradientStore::Shard gradient = gradients_.shard(unit);
    range.gradient = within(gradient.gradient, gradient.first);
  }
  range.own = layout::overlap(cut_.own(units()[static_cast<std::size_t>(unit.value)]), part);
  if (range.own.count == 0) range.own.first = part.first;
  return range;
}

StateRange ResidentState::of_gradient(UnitIndex unit, const GradientStore::Shard& gradient) const {
  StateRange range{.unit = unit, .range = {gradient.first, gradient.gradient.elements()}, .gradient = gradient.gradient};
  range.own = layout::overlap(cut_.own(units()[static_cast<std::size_t>(unit.value)]), range.range);
  return range;
}

void ResidentState::visit_memory(const Use& use, Call call, void* body) {
  for (std::size_t u = 0; u < units().size(); ++u) {
    const UnitIndex unit{static_cast<int>(u)};
    const layout::Range all = held(unit);
    if (all.count == 0 || !is_visited(unit, use)) continue;  // a small unit has no part for each rank
    StateRange range = range_in_memory(unit, use, all);
    if (use.slots && has_slots()) {
      range.slots = slots_of(unit);
      range.own_slots = slots_on_ == SlotsOn::rank0 ? all : range.own;
    }
    call(body, range);
  }
  if (use.changes) changed(use);
}

template <class Body>
void ResidentState::for_each_copy(bool changes, const Body& use) {
  for_each({.slots = true, .changes = changes}, [&](const StateRange& range) {
    use(range.master);
    if (range.published.data != range.master.data) use(range.published);
    if (slots_on_ == SlotsOn::rank0) return;
    for (const Tensor& slot : range.slots) use(slot);
  });
}

void ResidentState::distribute(std::int64_t /*step*/) {
  ensure(cut_.whole(), "of state that is cut no rank has all");
  if (group_.size() == 1) return changed({});
  std::int64_t made = updates();
  group_.host().broadcast(view(std::span(&made, 1), Shape{1}), 0).wait();
  set_updates(made);
  for_each_copy(true, [&](const Tensor& tensor) { group_.broadcast(tensor, 0).wait(); });
  check_copies();
}

void ResidentState::gather() {
  if (group_.size() == 1) return;
  for_each({.slots = true, .changes = true}, [&](const StateRange& range) {
    const layout::Unit& unit = units()[static_cast<std::size_t>(range.unit.value)];
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < group_.size(); ++rank) {
      const int share = cut_.share_of(cut_.replica % cut_.parts + rank * cut_.parts);
      counts.push_back(layout::overlap(cut_.share(unit, share), range.range).count);
    }
    const auto complete = [&](const Tensor& tensor) {
      group_.all_gather(tensor, tensor.flat(range.own.first - range.range.first, range.own.count), counts).wait();
    };
    complete(range.master);
    if (slots_on_ == SlotsOn::rank0) return;
    for (const Tensor& slot : range.slots) complete(slot);
  });
}

void ResidentState::check_copies() {
  if (group_.size() == 1) return;
  StateHash hash(pieces_);
  for_each_copy(false, [&](const Tensor& tensor) { hash.add(tensor); });
  std::int64_t made = updates();
  hash.add(view(std::span(&made, 1), Shape{1}));
  hash.demand_alike(group_);
}

}  // namespace lockstep::parallel
