#pragma once

// Numbers about a flat range, f32 or bf16, left in device memory: the caller copies them over where it needs them.

#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

class Reduce : public Family {
 public:
  explicit Reduce(OpObserver* observer) : Family("reduce", observer) {}
  /// sum [1] f64 = the sum of squares, in double: chunks of 4096 elements, 16 lanes each, chunks added in order. Not
  /// finite when an element is not (numerics.md section 3.5).
  void sum_of_squares(const Tensor& sum, const Tensor& x);
  /// largest [1] f64 = the largest absolute value; NaN when there is one.
  void max_abs(const Tensor& largest, const Tensor& x);

 private:
  virtual void do_sum_of_squares(const Tensor& sum, const Tensor& x) = 0;
  virtual void do_max_abs(const Tensor& largest, const Tensor& x) = 0;
};

}  // namespace lockstep::ops
