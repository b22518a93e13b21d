#pragma once

// What a part of the model holds while it works: its units' weights, and on the way back its units' gradients. A part reads one
// unit, or two where embedding or head share a tied matrix.

#include <array>
#include <optional>
#include <span>

#include "model/weights.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"

namespace lockstep::model {

inline constexpr std::size_t most_units_of_a_part = 2;

/// Leases on `units`, in their order, for as long as this lives; their tensors in one set.
class LeasedWeights {
 public:
  LeasedWeights(parallel::ParameterStore& parameters, std::span<const UnitIndex> units, layout::Pass pass);
  LeasedWeights(parallel::ParameterStore& parameters, const UnitIndex& unit, layout::Pass pass)
      : LeasedWeights(parameters, std::span(&unit, 1), pass) {}
  const WeightSet& weights() const { return weights_; }
  const Tensor& operator[](arch::Role role) const { return weights_[role]; }

 private:
  std::array<std::optional<parallel::Lease>, most_units_of_a_part> leases_;
  WeightSet weights_;
};

/// The gradients of `units` (of the model's `all`), opened in their order for one micro-batch. close() ends it: not in the
/// destructor, for it may start a reduction and throw.
class OpenGradients {
 public:
  OpenGradients(parallel::GradientStore& store, const std::vector<layout::Unit>& all, std::span<const UnitIndex> units,
                Microbatch microbatch);
  OpenGradients(parallel::GradientStore& store, const std::vector<layout::Unit>& all, const UnitIndex& unit,
                Microbatch microbatch)
      : OpenGradients(store, all, std::span(&unit, 1), microbatch) {}
  const GradientSet& set() const { return set_; }
  void close();

 private:
  parallel::GradientStore& store_;
  std::array<UnitIndex, most_units_of_a_part> units_;
  std::size_t count_;
  Microbatch microbatch_;
  GradientSet set_;
};

}  // namespace lockstep::model
