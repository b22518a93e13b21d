#include "model/leases.h"

#include <algorithm>

namespace lockstep::model {

LeasedWeights::LeasedWeights(parallel::ParameterStore& parameters, std::span<const UnitIndex> units, layout::Pass pass) {
  ensure(units.size() <= most_units_of_a_part, "a part of the model reads few units");
  for (std::size_t i = 0; i < units.size(); ++i) {
    leases_[i].emplace(parameters.lease({units[i], pass}));
    weights_.add(parameters.units()[static_cast<std::size_t>(units[i].value)], leases_[i]->flat());
    for (const parallel::PackedMatrix& packed : leases_[i]->packed()) {
      weights_.set(static_cast<arch::Role>(packed.role), packed.tensor);
    }
  }
}

OpenGradients::OpenGradients(parallel::GradientStore& store, const std::vector<layout::Unit>& all,
                             std::span<const UnitIndex> units, Microbatch microbatch)
    : store_(store), count_(units.size()), microbatch_(microbatch) {
  ensure(!units.empty() && units.size() <= most_units_of_a_part, "a part of the model reads few units");
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
