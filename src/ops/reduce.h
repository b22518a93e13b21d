#pragma once

// Numbers about a flat range, f32 or bf16.

#include "tensor/tensor.h"

namespace lockstep::ops {

class Reduce {
 public:
  virtual ~Reduce() = default;
  /// Sum of squares in double: chunks of 4096 elements, 16 lanes each, chunks added in order (numerics.md 3.5). Not finite
  /// when an element is not.
  double sum_of_squares(const Tensor& x);
  /// Largest absolute value; NaN when there is one.
  double max_abs(const Tensor& x);

 private:
  virtual double do_sum_of_squares(const Tensor& x) = 0;
  virtual double do_max_abs(const Tensor& x) = 0;
};

}  // namespace lockstep::ops
