#pragma once

// Token and position rows, summed.

#include "model/context.h"
#include "model/weights.h"

namespace lockstep::model {

class EmbeddingLayer {
 public:
  explicit EmbeddingLayer(const Context& context) : context_(context) {}
  /// out [R, C] for tokens [R] i32; `token_table` [V, C]; positions start at `first_position`.
  void forward(const Pass& pass, const WeightSet& w, const Tensor& token_table, const Tensor& tokens, const Tensor& out,
               std::int64_t first_position = 0) const;
  /// d [R, C] is used up. `d_tokens` [V, C] gets rows added (it must start at zero); positions accumulate or overwrite.
  void backward(const Pass& pass, const WeightSet& gradient, const Tensor& d_tokens, bool accumulate, const Tensor& tokens,
                const Tensor& d) const;

 private:
  const Context& context_;
};

}  // namespace lockstep::model
