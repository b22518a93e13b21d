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
  /// weights f32 (master), gradient f32, exp_avg f32, exp_avg_sq f32: dense, one size. `publish` (may be empty, or the same as
  /// `weights`) gets the new weights in its own dtype.
  void adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
             const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars);

 private:
  virtual void do_adamw(const Tensor& weights, const Tensor& publish, const Tensor& gradient, const Tensor& exp_avg,
                        const Tensor& exp_avg_sq, const AdamW& rule, const StepScalars& scalars) = 0;
};

}  // namespace lockstep::ops
