#include "parallel/zero/resident_state.h"

#include <array>
#include <limits>

#include "base/error.h"
#include "io/checksum.h"

namespace lockstep::parallel {

void check_alike(comm::Communicator& group, std::span<const Tensor> tensors, bool compared) {
  if (group.size() == 1) return;
  std::uint64_t hash = 0;
  for (const Tensor& tensor : tensors) hash = hash * 31 + io::checksum({tensor.data, tensor.bytes()}, size_of(tensor.dtype), 0);
  const auto number = static_cast<std::int64_t>(hash);
  std::array<std::int64_t, 2> ends{number, number};
  if (!compared) ends = {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  group.host().all_reduce(view(std::span<std::int64_t>(ends).first(1), Shape{1}), comm::Reduction::min).wait();
  group.host().all_reduce(view(std::span<std::int64_t>(ends).last(1), Shape{1}), comm::Reduction::max).wait();
  if (ends[0] != ends[1]) throw SystemError("the ranks start with different weights or optimizer slots");
}

void broadcast_checked(comm::Communicator& group, std::span<const Tensor> tensors) {
  if (group.size() == 1) return;
  for (const Tensor& tensor : tensors) group.broadcast(tensor, 0).wait();
  check_alike(group, tensors);
}

void SlotMemory::declare(Arena& arena, const std::vector<layout::Unit>& of, const layout::StateCut& cut) {
  units.assign(of.size(), std::vector<Tensor>(names.size()));
  for (std::size_t u = 0; u < of.size(); ++u) {
    for (std::size_t s = 0; s < names.size(); ++s) {
      arena.declare(units[u][s], of[u].name + "." + names[s], Shape{cut.held(of[u]).count}, type);
    }
  }
}

std::span<const Tensor> ResidentState::slots_of(UnitIndex unit) const {
  if (!has_slots()) return {};
  return slots_.units[static_cast<std::size_t>(unit.value)];
}

void ResidentState::visit(const Use& use, Call call, void* body) {
  for (std::size_t u = 0; u < units().size(); ++u) {
    const UnitIndex index{static_cast<int>(u)};
    const ParameterStore::Shard weights = parameters_.shard(index);
    const layout::Range all{weights.first, weights.master.elements()};
    if (all.count == 0) continue;  // a small unit has no part for each rank
    StateRange range{.unit = index, .range = all, .master = weights.master, .published = weights.published};
    if (use.gradients) {
      const GradientStore::Shard gradient = gradients_.shard(index);
      range.gradient = gradient.gradient.flat(all.first - gradient.first, all.count);
    }
    range.own = cut_.own(units()[u]);
    if (use.slots && has_slots()) {
      range.slots = slots_of(index);
      range.own_slots = slots_on_ == SlotsOn::rank0 ? all : range.own;
    }
    call(body, range);
  }
  if (use.changes) parameters_.updated();
}

std::vector<Tensor> ResidentState::copies() {
  std::vector<Tensor> all;
  for_each({.slots = true}, [&](const StateRange& range) {
    all.push_back(range.master);
    if (range.published.data != range.master.data) all.push_back(range.published);
    if (slots_on_ == SlotsOn::all_ranks) all.insert(all.end(), range.slots.begin(), range.slots.end());
  });
  return all;
}

void ResidentState::distribute(std::int64_t /*step*/) {
  ensure(cut_.whole(), "of state that is cut no rank has all");
  broadcast_checked(group_, copies());
  parameters_.updated();
}

void ResidentState::gather() {
  if (group_.size() == 1) return;
  for_each({.slots = true, .changes = true}, [&](const StateRange& range) {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < group_.size(); ++rank) {
      const int share = cut_.share_of(cut_.replica % cut_.parts + rank * cut_.parts);
      counts.push_back(cut_.share(units()[static_cast<std::size_t>(range.unit.value)], share).count);
    }
    const auto complete = [&](const Tensor& tensor) {
      group_.all_gather(tensor, tensor.flat(range.own.first - range.range.first, range.own.count), counts).wait();
    };
    complete(range.master);
    if (slots_on_ == SlotsOn::rank0) return;
    for (const Tensor& slot : range.slots) complete(slot);
  });
}

void ResidentState::check_copies() { check_alike(group_, copies()); }

}  // namespace lockstep::parallel
