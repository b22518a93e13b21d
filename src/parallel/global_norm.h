#pragma once

// The gradient's norm over the mesh, each element counted once (numerics.md section 3.5).

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/groups.h"
#include "parallel/training_state.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

struct NormMemory {
  /// Declares memory for state of `units` in at most `ranges_of_unit` ranges each, whose norm `ranks` ranks take together.
  /// `exact`: squares are added without rounding (canonical mode).
  void declare(Arena& workspace, const std::vector<layout::Unit>& units, int ranges_of_unit, int ranks, bool exact = false);

  Mirror runs;     ///< [runs of all ranges, at most] f64: sums of squares over neighbouring elements that the rank owns
  Mirror squares;  ///< [ranks * units * ranges of a unit] f64, on the host: rank by rank
  Mirror digits;   ///< [ops::Reduce::exact_digits] i64: an exact norm's only memory
};

/// Each rank of the group sums squares in double, unit by unit. An element counts on one rank only. Each of d ranks with the same
/// parameters counts one d-th (StateRange::own). One of the tensor or pipeline ranks with the same elements counts them
/// (layout::owned_runs). The partial sums are gathered and added in the order of units. Within a unit they are added by pipeline
/// rank, tensor rank, share and range. So the norm depends on the number of shares, but not on who holds what. An exact norm is a
/// function of the gradient alone: squares are added without rounding, in any order, and the sum is rounded once.
class GlobalNorm {
 public:
  /// The norm of the gradients of `state`, which the ranks of `group` share. `memory` is declared for both. The references
  /// outlive this.
  GlobalNorm(TrainingState& state, const NormMemory& memory, comm::Communicator& group);
  /// The norm over all ranks of the mesh.
  GlobalNorm(TrainingState& state, const NormMemory& memory, const Groups& groups);
  /// The norm, once the gradients were reduced. It is not finite when an element is not.
  double operator()(ops::Ops& ops);
  /// For gradients that do not stay in memory: add() each when it was reduced, then sum() gives the norm. `range` is all that
  /// this rank has of the unit.
  void add(ops::Ops& ops, const StateRange& range) { add(ops, range, 0); }
  double sum(ops::Ops& ops);

 private:
  GlobalNorm(TrainingState& state, const NormMemory& memory, comm::Communicator& group, std::vector<int> order);
  /// `number`: which of the unit's ranges this is.
  void add(ops::Ops& ops, const StateRange& range, std::int64_t number);

  bool exact() const { return memory_.digits.device.shape.rank() > 0; }
  /// A new sum of exact squares, unless there is one.
  void begin_exact(ops::Ops& ops);
  double sum_exact(ops::Ops& ops);

  TrainingState& state_;
  comm::Communicator& group_;
  const NormMemory& memory_;
  std::int64_t partials_;  ///< partial sums of a rank: units times ranges of a unit
  std::vector<std::int64_t> counts_;
  std::vector<std::size_t> places_;  ///< by run: the partial sum that it is added to
  bool begun_ = false;               ///< the digits are those of the sum that is being taken
  std::vector<int> order_;           ///< ranks of the group, in the order in which their partial sums are added
};

}  // namespace lockstep::parallel
