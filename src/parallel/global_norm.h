#pragma once

// The gradient's norm over the mesh, each element counted once (numerics.md section 3.5).

#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"

namespace lockstep::parallel {

/// Rank r of the group's d ranks sums the squares of its 1/d range of each unit in double; the (unit, range) partials are
/// gathered and added in (unit, range) order, so that the norm does not depend on who owns what.
class GlobalNorm {
 public:
  GlobalNorm(const std::vector<layout::Unit>& units, comm::Communicator& group);
  /// After gradients.finish(). Not finite when a gradient is not.
  double operator()(ops::Reduce& reduce, GradientStore& gradients);

 private:
  const std::vector<layout::Unit>& units_;
  comm::Communicator& group_;
  std::vector<double> mine_, all_;  ///< [units], [ranks, units]
};

}  // namespace lockstep::parallel
