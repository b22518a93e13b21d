#include "parallel/zero/resident_parameters.h"

namespace lockstep::parallel {

ResidentParameters::ResidentParameters(const ParameterMemory& memory, comm::Communicator& group)
    : memory_(memory), group_(group) {
  const layout::StateCut& cut = memory.cut;
  ensure(cut.whole() || cut.parts == group.size(), "the ranks that update a part each gather all of them");
  for (const layout::Unit& unit : memory.units) {
    Entry& entry = entries_.emplace_back(cut.held(unit), std::vector<std::int64_t>{});
    for (int part = 0; !cut.whole() && part < cut.parts; ++part)
      entry.counts.push_back(layout::range_of(unit, part, cut.parts).count);
  }
}

Lease ResidentParameters::lease(const layout::Access& access) {
  order_.take(access);
  Entry& leased = entry(access.part.unit);
  leased.arriving.wait();
  const layout::Range& elements = access.part.elements;
  return {this, access, weights(access.part.unit).flat(elements.first, elements.count), leased.packed};
}

void ResidentParameters::add_packed(UnitIndex unit, const PackedMatrix& matrix) { entry(unit).packed.push_back(matrix); }

// What was packed is read anew: new weights lie in rows.
void ResidentParameters::updated(Changed what) {
  for (std::size_t u = 0; u < entries_.size(); ++u) {
    if (what == Changed::trained && !memory_.units[u].trained) continue;
    Entry& entry = entries_[u];
    entry.packed.clear();
    if (entry.counts.empty() || memory_.units[u].elements == 0) continue;
    entry.arriving.wait();
    const Tensor& whole = memory_.weights[u];
    entry.arriving =
        group_.moving(comm::Purpose::weights).all_gather(whole, whole.flat(entry.held.first, entry.held.count), entry.counts);
  }
}

void ResidentParameters::begin(const std::vector<layout::Access>& order) { order_.begin(order); }

ParameterStore::Shard ResidentParameters::shard(UnitIndex unit) {
  Entry& of = entry(unit);
  of.arriving.wait();  // other ranks read this part
  const Tensor published = weights(unit).flat(of.held.first, of.held.count);
  return memory_.shard(unit, published, of.held.first);
}

void ResidentParameters::release(const layout::Access& /*access*/) noexcept {}

}  // namespace lockstep::parallel
