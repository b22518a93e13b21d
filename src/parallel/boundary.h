#pragma once

// Where a sub-layer is entered (before the column-split product) and left (after the row-split product): all of tensor and
// sequence parallelism happens here. No layer asks for a rank.

#include <memory>

#include "comm/request.h"
#include "tensor/tensor.h"

namespace lockstep::parallel {

class Boundary {
 public:
  virtual ~Boundary() = default;
  /// Whether nothing is reduced on the way: then a product may add its bias and the residual itself.
  virtual bool is_local() const = 0;
  /// out = in carried over the boundary; out may be in.
  virtual comm::Request forward(const Tensor& out, const Tensor& in) = 0;
  /// d_in = d_out carried back; d_in may be d_out.
  virtual comm::Request backward(const Tensor& d_in, const Tensor& d_out) = 0;
};

/// The two boundaries of a sub-layer.
struct Boundaries {
  Boundary* enter;
  Boundary* leave;
};

/// Nothing moves: out is in.
std::unique_ptr<Boundary> make_identity_boundary();

}  // namespace lockstep::parallel
