#pragma once

// The named tensors of a part of the model: views into the flat buffers of its units, for weights and for gradients alike.

#include <array>

#include "arch/parameters.h"
#include "layout/unit.h"
#include "ops/weight_work.h"
#include "tensor/tensor.h"

namespace lockstep::model {

/// Empty tensors stand for parameters that the configuration leaves out.
class WeightSet {
 public:
  WeightSet() = default;
  WeightSet(const layout::Unit& unit, const Tensor& flat) { add(unit, flat); }
  /// Adds the parameters of one more unit.
  void add(const layout::Unit& unit, const Tensor& flat) { add(unit, flat, {0, unit.elements}); }
  /// Adds the parameters of `unit` that lie among `elements` of it. `flat` has these elements.
  void add(const layout::Unit& unit, const Tensor& flat, const layout::Range& elements);
  /// Adds a tensor, or replaces the one of this role.
  void set(arch::Role role, const Tensor& tensor) { tensors_[static_cast<std::size_t>(role)] = tensor; }
  const Tensor& operator[](arch::Role role) const { return tensors_[static_cast<std::size_t>(role)]; }

 private:
  std::array<Tensor, static_cast<std::size_t>(arch::Role::count)> tensors_;
};

/// Where the gradients of a micro-batch go: f32.
struct GradientSet {
  WeightSet tensors;
  bool accumulate = false;  ///< false: what lies there is old and is overwritten
  const Tensor& operator[](arch::Role role) const { return tensors[role]; }
};

/// Where a backward pass leaves gradients: those of norms in `set`, those of matrices through `sink`.
struct Gradients {
  const GradientSet& set;
  ops::WeightSink& sink;
  const ops::SumGrid* tokens = nullptr;        ///< ranges of rows by which matrices' gradients are summed; null: in blocks
  std::span<const ops::Positions> parts = {};  ///< WeightWork's
  /// Pushes the gradients of a matrix and its bias (or an empty tensor), for y = x w^T + b.
  void push(arch::Role weight, const Tensor& bias, const Tensor& x, const Tensor& dy) const {
    sink.push({x, dy, set[weight], bias, set.accumulate, tokens, parts});
  }
};

}  // namespace lockstep::model
