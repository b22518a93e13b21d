#pragma once

// Element-wise activations on their own. Products apply activations while their result is in cache; these ops are for what does
// not come from a product. All tensors of a call are f32, or all are bf16. GELU: Hendrycks & Gimpel 2016, exact (erf) and tanh
// forms. SiLU: x / (1 + e^-x).

#include "ops/linear.h"
#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

class Activations : public Family {
 public:
  explicit Activations(OpObserver* observer) : Family("activation", observer) {}
  /// y = f(x); y may be x.
  void forward(const Tensor& y, const Tensor& x, Activation f);
  /// dx = dy * f'(x); dx may be dy. When `y` is not empty, it gets f(x) again.
  void backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f);

 private:
  virtual void do_forward(const Tensor& y, const Tensor& x, Activation f) = 0;
  virtual void do_backward(const Tensor& dx, const Tensor& y, const Tensor& dy, const Tensor& x, Activation f) = 0;
};

}  // namespace lockstep::ops
