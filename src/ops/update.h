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

/// What a rule reads and writes: dense, one size. `weights` is f32 or bf16; f32 weights are a master copy, of which `publish`
/// (may be empty, or the same as `weights`) gets the new values in its own dtype. `gradient` is f32.
struct AdamWTensors {
  Tensor weights, publish, gradient;
  Tensor exp_avg, exp_avg_sq;  ///< of the weights' type
};

struct SgdTensors {
  Tensor weights, publish, gradient;  ///< as AdamWTensors has them
  Tensor momentum_buffer;             ///< of the weights' type; empty when momentum is 0
};

class Update : public Family {
 public:
  explicit Update(OpObserver* observer) : Family("update", observer) {}
  /// Each bf16 value is rounded once, when it is stored, and the step is taken with the moments as they are stored.
  void adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars);
  /// The same for stochastic gradient descent.
  void sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars);

 private:
  virtual void do_adamw(const AdamWTensors& tensors, const AdamW& rule, const StepScalars& scalars) = 0;
  virtual void do_sgd(const SgdTensors& tensors, const Sgd& rule, const StepScalars& scalars) = 0;
};

}  // namespace lockstep::ops
