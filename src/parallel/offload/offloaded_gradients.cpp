#include "parallel/offload/offloaded_gradients.h"

#include <algorithm>

#include "base/timer.h"

namespace lockstep::parallel {

bool offload_gradients(const GradientWork& work) {
  const bool side_by_side = work.canonical && work.microbatches > 1;
  return work.open_microbatches == 1 && work.units_in_turn && !work.each_microbatch() && !side_by_side;
}

namespace {

/// The places of a ring, as large as its largest unit. `received`: no more than what is held comes to them.
void declare_places(OffloadedGradientMemory::Ring& ring, const GradientArenas& arenas, const std::vector<layout::Unit>& units,
                    const layout::StateCut& cut, bool received) {
  std::int64_t whole = 0, held = 0;
  for (const UnitIndex unit : ring.units) {
    const layout::Unit& of = units[static_cast<std::size_t>(unit.value)];
    whole = std::max(whole, received ? cut.held(of).count : of.elements);
    held = std::max(held, cut.held(of).count);
  }
  if (!cut.whole()) ring.helds.resize(ring.wholes.size());
  for (Mirror& place : ring.wholes) Spill::declare(arenas.gradients, place, "gradients", Spill::bytes_of(whole, DType::f32));
  for (Mirror& place : ring.helds) Spill::declare(arenas.gradients, place, "reduced", Spill::bytes_of(held, DType::f32));
}

}  // namespace

void OffloadedGradientMemory::declare(const GradientArenas& arenas, const std::vector<layout::Unit>& units,
                                      const GradientWork& work, const arch::UnitMap& map, const Spill::Needs& like,
                                      Spill& elsewhere) {
  ensure(offload_gradients(work), "gradients go elsewhere where units are done with one after another");
  spill = &elsewhere;
  cut = work.cut;
  order = work.order;
  rings.assign(3, {});
  const std::vector<UnitIndex>& inner = map.trains_all() ? map.blocks : map.adapters;
  for (const UnitIndex unit : order) {
    const bool block = std::ranges::find(inner, unit) != inner.end();
    rings[block ? 0U : unit == map.tied ? 2U : 1U].units.push_back(unit);
  }
  if (work.tied) {
    tied_unit = work.tied->unit;
    side = work.tied->side;
    if (side == TiedSide::embedding) rings[2].units.push_back(tied_unit);
    tied.emplace().declare(arenas, {work.tied->shape, work.tokens, work.ranks, side});
  }
  // One is added to, one is put away; one is read ahead, and one is reduced, where that is done.
  const std::size_t turns = 2U + (work.microbatches > 1 ? 1U : 0U) + (work.ranks > 1 ? 1U : 0U);
  sums.assign(units.size(), -1);
  helds = declare_units(*spill, units, cut, like, true);
  for (std::size_t r = 0; r < rings.size(); ++r) {
    Ring& ring = rings[r];
    ring.wholes.resize(std::min(ring.units.size(), r == 0 ? turns : std::size_t{1}));
    declare_places(ring, arenas, units, cut, r == 2 && side == TiedSide::embedding);
    for (const UnitIndex unit : ring.units) {
      const auto u = static_cast<std::size_t>(unit.value);
      if (ring.stays() || work.microbatches == 1 || units[u].elements == 0) continue;
      Spill::Needs needs = like;
      needs.of = units[u].name;
      needs.elements = units[u].elements;
      sums[u] = cut.whole() ? helds[u] : spill->declare(needs);
    }
  }
}

OffloadedGradients::OffloadedGradients(const std::vector<layout::Unit>& units, const arch::UnitMap& map, int microbatches,
                                       const OffloadedGradientMemory& memory, const GradientGroups& groups, ops::Ops& ops,
                                       const GradientOptions& options, Complete complete)
    : memory_(memory),
      entries_(units.size()),
      group_(groups.replicas),
      ops_(ops),
      options_(options),
      complete_(std::move(complete)),
      table_(held_table(units, map)),
      microbatches_(microbatches) {
  if (memory.tied) tied_.emplace(*memory.tied, group_, ops, groups.tied, table_->first_token);
  for (std::size_t r = 0; r < memory.rings.size(); ++r) {
    const OffloadedGradientMemory::Ring& from = memory.rings[r];
    Ring& ring = rings_.emplace_back();
    for (std::size_t p = 0; p < from.wholes.size(); ++p)
      ring.places.push_back({.whole = &from.wholes[p], .held = from.helds.empty() ? nullptr : &from.helds[p]});
    for (const UnitIndex index : from.units) {
      const layout::Unit& unit = units[static_cast<std::size_t>(index.value)];
      Entry& e = entry(index);
      e = {.ring = r, .elements = unit.elements, .held = memory.cut.held(unit), .gaps = layout::gaps_of(unit)};
      for (int part = 0; scatters() && part < group_.size(); ++part)
        e.counts.push_back(layout::range_of(unit, part, group_.size()).count);
    }
  }
}

Tensor OffloadedGradients::whole(const Place& place) {
  const std::int64_t elements = entry(place.unit).elements;
  return typed(Spill::part(*place.whole, 0, Spill::bytes_of(elements, DType::f32)).device, 0, elements, DType::f32);
}

Tensor OffloadedGradients::held(const Place& place) {
  const std::int64_t elements = entry(place.unit).held.count;
  const Mirror& memory = place.held != nullptr ? *place.held : *place.whole;
  return typed(Spill::part(memory, 0, Spill::bytes_of(elements, DType::f32)).device, 0, elements, DType::f32);
}

void OffloadedGradients::begin(int microbatches) {
  ensure(microbatches == microbatches_, "a step has the micro-batches that the store was declared for");
  exposed_seconds_ = first_ready_ = 0;
  for (Entry& e : entries_) e.opened = e.closed = 0;
  if (tied_) tied_->begin();
}

OffloadedGradients::Place* OffloadedGradients::take_place(UnitIndex unit, bool accumulates) {
  Ring& ring = rings_[entry(unit).ring];
  const auto there = std::ranges::find(ring.places, unit, &Place::unit);
  if (there != ring.places.end()) {
    if (!accumulates) release(*there);
    return &*there;
  }
  const auto open = [&](const Place& place) {
    return place.unit.value >= 0 && entry(place.unit).opened > entry(place.unit).closed;
  };
  std::size_t tried = 0;
  for (; tried < ring.places.size() && open(ring.places[ring.next]); ++tried) ring.next = (ring.next + 1) % ring.places.size();
  if (tried == ring.places.size()) return nullptr;
  Place& place = ring.places[ring.next];
  ring.next = (ring.next + 1) % ring.places.size();
  release(place);
  place.unit = unit;
  const std::int64_t elements = entry(unit).elements;
  if (accumulates && elements > 0) {  // the unit of the embedding may be empty
    const Mirror to = Spill::part(*place.whole, 0, Spill::bytes_of(elements, DType::f32));
    place.move = memory_.spill->read(memory_.sums[static_cast<std::size_t>(unit.value)], {0, elements}, to);
  }
  return &place;
}

OpenGradient OffloadedGradients::open(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value == e.opened && e.opened == e.closed, "gradients accumulate in the order of micro-batches");
  Place* const place = take_place(unit, microbatch.value > 0);
  ensure(place != nullptr, "no more units are open at a time than there are places for");
  ++e.opened;
  memory_.spill->finish(place->move);
  const Tensor flat = whole(*place);
  if (microbatch.value == 0) {
    for (const layout::Range& gap : e.gaps)  // which have what another unit left there
      ops_.elementwise().zero(flat.flat(gap.first, gap.count));
  }
  if (microbatch.value > 0) read_ahead(unit, microbatch);
  return {flat, microbatch.value > 0};
}

// The unit that backward comes to next; what follows the last one is read when the next micro-batch asks.
void OffloadedGradients::read_ahead(UnitIndex unit, Microbatch microbatch) {
  auto next = std::ranges::find(memory_.order, unit);
  if (next == memory_.order.end()) return;
  for (++next; next != memory_.order.end(); ++next) {
    if (memory_.sums[static_cast<std::size_t>(next->value)] < 0) continue;
    const Entry& e = entry(*next);
    if (e.closed == microbatch.value && e.opened == e.closed) take_place(*next, true);
    return;
  }
}

void OffloadedGradients::expect(const Tensor& tokens) {
  if (tied_) tied_->expect(tokens);
}

Tensor OffloadedGradients::open_rows(Microbatch microbatch) {
  if (tied_) return tied_->open_rows();
  ensure(table_.has_value(), "rows are added where the token table is");
  const Ring& ring = rings_[entry(table_->unit).ring];
  const auto place = std::ranges::find(ring.places, table_->unit, &Place::unit);
  ensure(place != ring.places.end(), "rows are added while the embedding's unit is open");
  const Tensor rows = whole(*place).flat(table_->offset, table_->shape.elements()).reshape(table_->shape);
  if (microbatch.value == 0) ops_.elementwise().zero(rows);
  return rows;
}

void OffloadedGradients::close(UnitIndex unit, Microbatch microbatch) {
  Entry& e = entry(unit);
  ensure(microbatch.value == e.closed && e.closed < e.opened, "what is closed was opened, and is closed in order");
  ++e.closed;
  Ring& ring = rings_[e.ring];
  Place& place = *std::ranges::find(ring.places, unit, &Place::unit);
  if (e.closed < microbatches_) {
    const int number = memory_.sums[static_cast<std::size_t>(unit.value)];
    const Mirror from = Spill::part(*place.whole, 0, Spill::bytes_of(e.elements, DType::f32));
    if (number >= 0) place.move = memory_.spill->write(number, {0, e.elements}, from);
    return;
  }
  if (first_ready_ == 0) first_ready_ = now_seconds();
  for (Ring& other : rings_) {
    for (Place& before : other.places) arrived(before);
  }
  reduce(place);
}

void OffloadedGradients::reduce(Place& place) {
  const Tensor from = whole(place);
  place.reducing = true;
  if (group_.size() > 1) {
    place.reduction = scatters() ? group_.moving(comm::Purpose::gradients)
                                       .reduce_scatter(held(place), from, entry(place.unit).counts, comm::Reduction::sum)
                                 : group_.moving(comm::Purpose::gradients).all_reduce(from, comm::Reduction::sum);
  }
  if (!options_.overlap || group_.size() == 1) arrived(place);
}

void OffloadedGradients::arrived(Place& place) {
  if (!place.reducing) return;
  place.reducing = false;
  {
    const ScopedTime exposed(exposed_seconds_);
    place.reduction.join(ops_.stream());
  }
  const Entry& e = entry(place.unit);
  if (place.held != nullptr && !scatters()) copy(ops_.stream(), held(place), whole(place).flat(e.held.first, e.held.count));
  if (place.unit != memory_.tied_unit) put_away(place);
}

void OffloadedGradients::put_away(Place& place) {
  const Entry& e = entry(place.unit);
  if (e.held.count == 0) return;
  complete_(place.unit, {held(place), e.held.first});
  const Mirror from =
      Spill::part(place.held != nullptr ? *place.held : *place.whole, 0, Spill::bytes_of(e.held.count, DType::f32));
  place.move = memory_.spill->write(memory_.helds[static_cast<std::size_t>(place.unit.value)], {0, e.held.count}, from);
}

void OffloadedGradients::release(Place& place) {
  arrived(place);
  memory_.spill->finish(place.move);
}

void OffloadedGradients::finish() {
  overlappable_seconds_ = now_seconds() - first_ready_ - exposed_seconds_;
  for (const UnitIndex unit : memory_.order)
    ensure(entry(unit).closed == microbatches_, "every unit got the gradient of every micro-batch");
  for (Ring& ring : rings_) {
    for (Place& place : ring.places) release(place);
  }
  if (!tied_) return;
  Place& place = rings_[entry(memory_.tied_unit).ring].places.front();
  place.unit = memory_.tied_unit;
  tied_->reduce_rows();
  tied_->exchange(held(place));
  tied_->add_rows(held(place), entry(place.unit).held.first);
  put_away(place);
  release(place);
}

}  // namespace lockstep::parallel
