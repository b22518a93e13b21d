#pragma once

// AdamW (Loshchilov & Hutter 2019, algorithm 2, as PyTorch writes it) on a flat range, one pass, clipping included:
//   g' = clip * g;  p *= 1 - lr * decay;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
//   p -= lr / bc1 * m / (sqrt(v) / sqrt(bc2) + eps)

#include "ops/step_scalars.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

struct AdamW {
  float beta1 = 0.9F, beta2 = 0.95F, eps = 1e-8F;
  float weight_decay = 0.1F;
};

class Update {
 public:
  virtual ~Update() = default;
  /// weights, exp_avg and exp_avg_sq all f32 or all bf16, gradient f32: dense, one size. f32 weights are a master copy:
  /// `publish` (may be empty, or the same as `weights`) gets the new ones in its own dtype. Each bf16 value is rounded once, when
  /// it is stored, and the step is taken with the moments as they are stored.
  void adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
             const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars);

 private:
  virtual void do_adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
                        const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars) = 0;
};

}  // namespace lockstep::ops
