#pragma once

// Softmax cross-entropy on a chunk of logits, fused with its gradient. B tokens, V vocabulary.

#include "ops/op_scope.h"
#include "tensor/tensor.h"

namespace lockstep::ops {

class Loss : public Family {
 public:
  explicit Loss(OpObserver* observer) : Family("loss", observer) {}
  /// For each row: loss_i = log sum exp(logits_i) - logits_i[target_i]; targets [B] i32, -1 is ignored (loss 0, gradient 0).
  /// loss_sum [1] f64 += the losses of the rows, in fixed blocks of 64 rows in order. `vocabulary` <= columns of
  /// logits: columns from it on are padding and count as minus infinity (gradient 0).
  /// When `scale` is not empty ([1] f32, one over the step's global number of targets, read by the op), the logits become
  /// their gradient: (softmax - onehot) * scale. When empty they are left as they are.
  void forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale, const Tensor& loss_sum);

 private:
  virtual void do_forward(const Tensor& logits, const Tensor& targets, std::int64_t vocabulary, const Tensor& scale,
                          const Tensor& loss_sum) = 0;
};

}  // namespace lockstep::ops
