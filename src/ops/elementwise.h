#pragma once

// Plain element-wise work on dense tensors of f32 or bf16. Both tensors of a call have one type, except in cast. cast and add
// also take column slices of matrices, both of one shape.

#include <cstdint>

#include "base/rng.h"
#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

class Elementwise : public Family {
 public:
  explicit Elementwise(OpObserver* observer) : Family("elementwise", observer) {}
  void zero(const Tensor& x);
  void fill(const Tensor& x, float value);
  /// y = x, converting between f32 and bf16 (round to nearest even).
  void cast(const Tensor& y, const Tensor& x);
  /// Splits x, f32, into two halves (tensor/bfloat16.h: Halves). `high` is bf16. `low` is u16, or empty where it is not wanted.
  void split(const Tensor& high, const Tensor& low, const Tensor& x);
  /// The inverse of split: the same bits, but for NaN.
  void join(const Tensor& x, const Tensor& high, const Tensor& low);
  /// y += x.
  void add(const Tensor& y, const Tensor& x);
  /// y [B, C] = sums + bias + residual. This ends a product whose sums, f32 [B, C], were added up in parts. bias [C] and residual
  /// [B, C] may be empty. Both have y's type, f32 or bf16. y is rounded once. y may be the residual, or sums where y is f32.
  void finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual);
  /// x *= factor.
  void scale(const Tensor& x, float factor);
  /// x = cap tanh(x / cap), f32. `tanhs`, of x's size or empty, gets the hyperbolic tangents, which the backward pass needs.
  void soft_cap(const Tensor& x, const Tensor& tanhs, float cap);
  /// d *= 1 - tanhs^2: turns the gradient of soft_cap()'s result into that of its input.
  void soft_cap_backward(const Tensor& d, const Tensor& tanhs);
  /// x[i] = mean + std * normal(first + i), where normal(e) is element e of the named parameter (numerics.md section 1).
  /// Box-Muller makes elements 2j and 2j+1 of words 2j and 2j+1 of the sequence. The bits are equal on every machine.
  void normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std);
  /// x[i] = low + (high - low) * uniform(first + i).
  void uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high);

 private:
  virtual void do_zero(const Tensor& x) = 0;
  virtual void do_fill(const Tensor& x, float value) = 0;
  virtual void do_cast(const Tensor& y, const Tensor& x) = 0;
  virtual void do_split(const Tensor& high, const Tensor& low, const Tensor& x) = 0;
  virtual void do_join(const Tensor& x, const Tensor& high, const Tensor& low) = 0;
  virtual void do_add(const Tensor& y, const Tensor& x) = 0;
  virtual void do_finish_sums(const Tensor& y, const Tensor& sums, const Tensor& bias, const Tensor& residual) = 0;
  virtual void do_scale(const Tensor& x, float factor) = 0;
  virtual void do_soft_cap(const Tensor& x, const Tensor& tanhs, float cap) = 0;
  virtual void do_soft_cap_backward(const Tensor& d, const Tensor& tanhs) = 0;
  virtual void do_normal(const Tensor& x, const CounterRng& rng, std::int64_t first, float mean, float std) = 0;
  virtual void do_uniform(const Tensor& x, const CounterRng& rng, std::int64_t first, float low, float high) = 0;
};

}  // namespace lockstep::ops
