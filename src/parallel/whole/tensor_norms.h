#pragma once

// Norms of each tensor of the model and of its gradient, for rules that scale steps by them.

#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/training_state.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

struct TensorNormMemory {
  /// Declares memory for a model whose units are `all`, those of other pipeline ranks too.
  void declare(Arena& workspace, const std::vector<layout::Unit>& all);

  std::vector<std::int64_t> first;  ///< by unit: the number of its first tensor
  std::int64_t tensors = 0;
  Mirror digits;  ///< [2, tensors, ops::Reduce::exact_digits] i64: of the weights' squares, and of the gradients'
};

/// Each rank adds the squares of the elements that it answers for, without rounding. A tensor's sum is rounded once. So its norm
/// is a function of the tensor alone, whatever ranks have of it.
class TensorNorms {
 public:
  /// The ranks of `group` hold together the state that measure() gets. `memory` is declared for its model. Both outlive this.
  TensorNorms(const TensorNormMemory& memory, comm::Communicator& group) : memory_(memory), group_(group) {}
  /// Takes all norms. Called when the gradients were reduced. Collective.
  void measure(TrainingState& state, ops::Ops& ops);
  struct Norms {
    double weights, gradient;
  };
  /// The norms of a unit's parameter, as measure() found them last.
  Norms of(UnitIndex unit, std::size_t parameter) const;

 private:
  double norm(std::int64_t number) const;
  std::int64_t number_of(UnitIndex unit, std::size_t parameter) const {
    return memory_.first[static_cast<std::size_t>(unit.value)] + static_cast<std::int64_t>(parameter);
  }

  const TensorNormMemory& memory_;
  comm::Communicator& group_;
};

}  // namespace lockstep::parallel
