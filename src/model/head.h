#pragma once

// Final norm, logits and loss. Logits exist one chunk of tokens at a time; their gradient is made in the same visit.

#include "model/context.h"
#include "model/weights.h"
#include "tensor/arena.h"

namespace lockstep::model {

class Head {
 public:
  explicit Head(const Context& context) : context_(context), norm_(norm_of(context)) {}
  /// Tokens of a chunk: a multiple of 256 (numerics.md section 3.2), as many as keep the logits near 8 MiB.
  static std::int64_t chunk_rows(const layout::ShardedDims& dims, std::int64_t rows);
  /// Workspace for passes of at most `rows` rows.
  void declare(Arena& arena, std::int64_t rows, bool training);

  struct Weights {
    const WeightSet& head;     ///< final norm
    const Tensor& projection;  ///< [V, C]
  };
  struct Gradients {
    const WeightSet& head;
    const Tensor& projection;  ///< f32 [V, C]
    bool accumulate_head, accumulate_projection;
  };
  /// Sum of the rows' losses; d [R, C] gets the gradient of x, weight gradients go to `sink`. `scale` [1]: one over the step's
  /// global number of targets.
  double loss_and_gradient(const Tensor& x, const Tensor& targets, const Tensor& scale, const Weights& w,
                           const Gradients& gradient, ops::WeightSink& sink, const Tensor& d);
  /// Sum of the rows' losses alone.
  double loss(const Tensor& x, const Tensor& targets, const Weights& w);
  /// logits [R, V] f32 of x [R, C]: R at most the declared rows.
  void logits(const Tensor& logits, const Tensor& x, const Weights& w);

 private:
  void norm(const Tensor& x, const Weights& w);
  const Context& context_;
  ops::Norm& norm_;
  Tensor normed_, stats_, d_normed_, logits_;
};

}  // namespace lockstep::model
