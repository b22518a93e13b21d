#include "model/leases.h"

#include <algorithm>

namespace lockstep::model {

LeasedWeights::LeasedWeights(parallel::ParameterStore& parameters, std::span<const layout::Part> parts, layout::Pass pass) {
  ensure(parts.size() <= most_leases_of_a_part, "a part of the model takes few leases");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const layout::Part& part = parts[i];
    leases_[i].emplace(parameters.lease({parts[i], pass}));
    weights_.add(parameters.units()[static_cast<std::size_t>(part.unit.value)], leases_[i]->flat(), part.elements);
    for (const parallel::PackedMatrix& packed : leases_[i]->packed()) {
      weights_.set(static_cast<arch::Role>(packed.role), packed.tensor);
    }
  }
}

LeasedTile LayerWeights::lease(const arch::Tile& tile) const {
  parallel::Lease lease = parameters_->lease({tile.part, pass_});
  const Tensor flat = lease.flat();
  if (flat.elements() == tile.part.count()) return {std::move(lease), flat.reshape(Shape{tile.rows.count, tile.columns.count})};
  const Tensor rows = flat.reshape(Shape{tile.rows.count, tile.part.row});
  return {std::move(lease), rows.slice_columns(tile.columns.first, tile.columns.count)};
}

const WeightSet& BlockWeights::lease(const std::vector<layout::Part>& parts) {
  if (leased_ == nullptr || *leased_ != parts) {
    weights_.emplace(parameters_, parts, pass_);  // what was leased before goes first
    leased_ = &parts;
  }
  return weights_->weights();
}

OpenGradients::OpenGradients(parallel::GradientStore& store, const std::vector<layout::Unit>& all,
                             std::span<const UnitIndex> units, Microbatch microbatch)
    : store_(store), count_(units.size()), microbatch_(microbatch) {
  ensure(units.size() <= most_units_of_a_part, "a part of the model reads few units");
  std::ranges::copy(units, units_.begin());
  for (std::size_t i = 0; i < count_; ++i) {
    const parallel::OpenGradient gradient = store.open(units[i], microbatch);
    ensure(i == 0 || gradient.accumulate == set_.accumulate, "the units of a part accumulate alike");
    set_.accumulate = gradient.accumulate;
    set_.tensors.add(all[static_cast<std::size_t>(units[i].value)], gradient.flat);
  }
}

void OpenGradients::close() {
  for (std::size_t i = 0; i < count_; ++i) store_.close(units_[i], microbatch_);
}

}  // namespace lockstep::model
