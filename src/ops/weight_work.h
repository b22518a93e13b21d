#pragma once

// A weight gradient as a record: layers push what the gradient needs, a sink runs it at once or keeps it. Zero-bubble
// schedules and the overlap of dX's reduction need nothing else from the model.

#include "tensor/tensor.h"

namespace lockstep::ops {

/// gradient [N, K] (+)= dy [B, N]^T x [B, K]; bias_gradient [N] (+)= sum of dy, when not empty.
struct WeightWork {
  Tensor x, dy;
  Tensor gradient, bias_gradient;
  bool accumulate = false;
};

class WeightSink {
 public:
  virtual ~WeightSink() = default;
  /// Takes the work. `x` and `dy` stay valid until it has run.
  virtual void push(const WeightWork& work) = 0;
};

}  // namespace lockstep::ops
