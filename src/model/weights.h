#pragma once

// The named tensors of a unit: views into its flat buffer, for weights and for gradients alike.

#include <array>

#include "arch/parameters.h"
#include "layout/unit.h"
#include "tensor/tensor.h"

namespace lockstep::model {

/// Empty tensors stand for parameters that the configuration leaves out.
class WeightSet {
 public:
  WeightSet() = default;
  WeightSet(const layout::Unit& unit, const Tensor& flat);
  const Tensor& operator[](arch::Role role) const { return tensors_[static_cast<std::size_t>(role)]; }

 private:
  std::array<Tensor, static_cast<std::size_t>(arch::Role::count)> tensors_;
};

}  // namespace lockstep::model
