#pragma once

// The gradient's norm over the mesh, each element counted once (numerics.md section 3.5).

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/training_state.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

/// Each rank of the group sums in double the squares of what it answers for of each unit (StateRange::own: of d ranks with the
/// same parameters one d-th); the (unit, share, range) partials are gathered and added in that order, so that the norm does not
/// depend on who holds what.
class GlobalNorm {
 public:
  /// Its partials: of `units` units in `ranges_of_unit` ranges each, at most, on each of `ranks` ranks.
  static void declare(Arena& workspace, Mirror& squares, std::size_t units, int ranges_of_unit, int ranks);
  /// Of the gradients of `state`; `squares` is declared for it and `group`. The references outlive this.
  GlobalNorm(TrainingState& state, const Mirror& squares, comm::Communicator& group);
  /// After the gradients were reduced. Not finite when one is not.
  double operator()(ops::Ops& ops);

 private:
  TrainingState& state_;
  comm::Communicator& group_;
  const Mirror& squares_;  ///< [ranks * partials] f64: rank by rank
  std::int64_t partials_;  ///< of a rank: units times ranges of a unit
  std::vector<std::int64_t> counts_;
  std::vector<int> ranks_;  ///< by share: who answers for it
};

}  // namespace lockstep::parallel
