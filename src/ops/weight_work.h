#pragma once

// A weight gradient as a record: layers push what the gradient needs, a sink makes it at once or keeps the record for later.
// Zero-bubble schedules and the overlap of dX's reduction need nothing else from the layers.

#include <span>

#include "ops/positions.h"
#include "ops/sum_grid.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

/// gradient [N, K] (+)= dy [B, N]^T x [B, K]. bias_gradient [N], when not empty, (+)= the sum of dy over B. Both are summed by
/// the ranges of `grid`, unless it is null.
struct WeightWork {
  Tensor x, dy;
  Tensor gradient, bias_gradient;
  bool accumulate = false;
  const SumGrid* grid = nullptr;  ///< ranges of the B rows; outlives the work
  /// The positions that each rank has, by rank, where `grid` is of whole samples that ranks divide. Empty: the usual ones. They
  /// outlive the work.
  std::span<const Positions> parts = {};
};

class WeightSink {
 public:
  virtual ~WeightSink() = default;
  /// Takes the work. A sink that keeps it is given only to layers whose `x` and `dy` lie where the next layer does not write
  /// (model::BlockDeferred).
  virtual void push(const WeightWork& work) = 0;
};

}  // namespace lockstep::ops
