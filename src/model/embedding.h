#pragma once

// Token and position rows, summed, or token rows scaled. R rows of a micro-batch, Ro of them outside of the embedding's boundary.
// Where ranks divide the vocabulary each looks up the tokens that it has, and the boundary sums. Every row is one rank's.

#include "model/context.h"
#include "model/saved.h"
#include "model/weights.h"

namespace lockstep::model {

class EmbeddingLayer {
 public:
  explicit EmbeddingLayer(const Context& context) : context_(context), boundary_(*context.boundaries.embedding) {}
  /// out [Ro, C] for tokens [R] i32.
  void forward(const Pass& pass, const WeightSet& w, const Tensor& tokens, const Tensor& out, const Scratch& scratch) const;
  /// d [Ro, C] is used up. `d_tokens` [V, C] gets the rows of its tokens added. Where these are summed by ranges, it gets a whole
  /// step's rows with the last micro-batch. Positions accumulate or overwrite.
  void backward(const Pass& pass, const GradientSet& gradient, const Tensor& d_tokens, const Tensor& tokens, const Tensor& d,
                const Scratch& scratch, int microbatch) const;

 private:
  ops::DropoutSite dropout(const Pass& pass) const;
  bool scales() const { return context_.config.embedding_scale != 1; }
  const Context& context_;
  parallel::Boundary& boundary_;
};

}  // namespace lockstep::model
