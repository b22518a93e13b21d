#pragma once

// Numbers about a flat range, f32 or bf16, left in device memory: the caller copies them over where it needs them.

#include <span>

#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

class Reduce : public Family {
 public:
  explicit Reduce(OpObserver* observer) : Family("reduce", observer) {}
  /// sum [1] f64 = the sum of squares, in double: chunks of 4096 elements, 16 lanes each, chunks added in order. Not
  /// finite when an element is not (numerics.md section 3.5).
  void sum_of_squares(const Tensor& sum, const Tensor& x);
  /// Digits of an exact sum: digit i, an integer, counts 2^(32 i - exact_bias). The last digit is above 0 where an element was
  /// not finite. The digits of several ranges may be added, in any order.
  static constexpr std::int64_t exact_digits = 21;
  static constexpr int exact_bias = 320;
  /// digits [exact_digits] i64 += the exact sum of squares.
  void exact_squares(const Tensor& digits, const Tensor& x);
  /// The sum that digits stand for, cut to a double: a function of the sum alone. Infinite where an element was not finite.
  static double from_digits(std::span<const std::int64_t> digits);
  /// largest [1] f64 = the largest absolute value; NaN when there is one.
  void max_abs(const Tensor& largest, const Tensor& x);

 private:
  virtual void do_sum_of_squares(const Tensor& sum, const Tensor& x) = 0;
  virtual void do_exact_squares(const Tensor& digits, const Tensor& x) = 0;
  virtual void do_max_abs(const Tensor& largest, const Tensor& x) = 0;
};

}  // namespace lockstep::ops
