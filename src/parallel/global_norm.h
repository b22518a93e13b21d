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
/// same state one d-th); the (unit, rank, range) partials are gathered and added in that order, so that the norm does not depend
/// on who holds what.
class GlobalNorm {
 public:
  /// Of the gradients of `state`, which outlives this, as the group does.
  GlobalNorm(TrainingState& state, comm::Communicator& group);
  void declare(Arena& workspace);
  /// After the gradients were reduced. Not finite when one is not.
  double operator()(ops::Ops& ops);

 private:
  TrainingState& state_;
  comm::Communicator& group_;
  std::int64_t partials_;  ///< of a rank: units times ranges of a unit
  std::vector<std::int64_t> counts_;
  Mirror squares_;  ///< [ranks * partials] f64: rank by rank
};

}  // namespace lockstep::parallel
