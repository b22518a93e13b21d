#include "parallel/zero/tree_gradients.h"

#include "base/sum_tree.h"

namespace lockstep::parallel {

void TreeGradientMemory::declare(Arena& gradients, const std::vector<layout::Unit>& units, const GradientWork& work) {
  if (work.microbatches == 1) return;
  in_turn = work.open_microbatches == 1;
  of_units.assign(units.size(), {});
  std::int64_t elements = 0;
  for (const UnitIndex unit : work.order) {
    const auto u = static_cast<std::size_t>(unit.value);
    of_units[u] = {elements, units[u].elements};
    elements += units[u].elements;
  }
  places.resize(static_cast<std::size_t>(in_turn ? places_of_tree(work.microbatches) : work.microbatches) - 1);
  for (Tensor& place : places) gradients.declare(place, "ranges of micro-batches", Shape{elements}, DType::f32);
}

TreeGradients::TreeGradients(GradientStore& whole, const TreeGradientMemory& memory, const std::vector<layout::Unit>& units,
                             const arch::UnitMap& map, ops::Ops& ops)
    : whole_(whole), memory_(memory), table_(held_table(units, map)), ops_(ops), first_(units.size()) {}

int TreeGradients::place_of(int microbatch) const { return memory_.in_turn ? place_in_tree(microbatch) : microbatch; }

Tensor TreeGradients::at(UnitIndex unit, int place) const {
  const auto u = static_cast<std::size_t>(unit.value);
  if (place == 0) return first_[u];
  const layout::Range& range = memory_.of_units[u];
  return memory_.places[static_cast<std::size_t>(place) - 1].flat(range.first, range.count);
}

OpenGradient TreeGradients::open(UnitIndex unit, Microbatch microbatch) {
  first_[static_cast<std::size_t>(unit.value)] = whole_.open(unit, microbatch).flat;
  return {at(unit, place_of(microbatch.value)), false};
}

Tensor TreeGradients::open_rows(Microbatch microbatch) {
  const int place = place_of(microbatch.value);
  if (place == 0 || table_->tied) return whole_.open_rows(microbatch);
  const Tensor rows = at(table_->unit, place).flat(table_->offset, table_->shape.elements()).reshape(table_->shape);
  ops_.elementwise().zero(rows);
  return rows;
}

void TreeGradients::close(UnitIndex unit, Microbatch microbatch) {
  const int behind = microbatch.value + 1;
  for (int half = 1; behind % (2 * half) == 0; half *= 2)
    ops_.elementwise().add(at(unit, place_of(behind - 2 * half)), at(unit, place_of(behind - half)));
  whole_.close(unit, microbatch);
}

}  // namespace lockstep::parallel
