#pragma once

// Updates of weights on a flat range, one pass, clipping included.
// AdamW (Loshchilov & Hutter 2019, algorithm 2, as PyTorch writes it):
//   g' = clip * g;  p *= 1 - lr * decay;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
//   p -= lr / bc1 * m / (sqrt(v) / sqrt(bc2) + eps)
// Stochastic gradient descent (torch.optim.SGD without dampening or Nesterov's rule; b = 0 before the first step):
//   g' = clip * g + decay * p;  b = momentum * b + g';  p -= lr * b, or lr * g' where there is no b

#include "ops/op_scope.h"
#include "ops/step_scalars.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

struct AdamW {
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F;
  float weight_decay = 0.1F;
};

struct Sgd {
  float momentum = 0;
  float weight_decay = 0;
};

class Update : public Family {
 public:
  explicit Update(OpObserver* observer) : Family("update", observer) {}
  /// weights, exp_avg and exp_avg_sq all f32 or all bf16, gradient f32: dense, one size. f32 weights are a master copy:
  /// `publish` (may be empty, or the same as `weights`) gets the new ones in its own dtype. Each bf16 value is rounded once, when
  /// it is stored, and the step is taken with the moments as they are stored.
  void adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
             const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars);
  /// The same for stochastic gradient descent; momentum_buffer is of the weights' type, and empty when momentum is 0.
  void sgd(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& momentum_buffer, const Sgd& rule,
           const StepScalars& scalars);

 private:
  virtual void do_adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
                        const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars) = 0;
  virtual void do_sgd(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& momentum_buffer,
                      const Sgd& rule, const StepScalars& scalars) = 0;
};

}  // namespace lockstep::ops
