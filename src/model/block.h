#pragma once

// One transformer block: attention, then feed-forward, each on the residual stream (pre-norm).

#include "model/attention.h"
#include "model/mlp.h"

namespace lockstep::model {

class Block {
 public:
  Block(const Context& context, int layer) : attention_(context, layer), mlp_(context, layer) {}
  /// out [R, C] from saved.x; out may be saved.x when nothing goes backward.
  void forward(const Pass& pass, const WeightSet& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const {
    attention_.forward(pass, w, saved, saved.middle.slice_rows(0, pass.rows()), scratch);
    mlp_.forward(pass, w, saved, out, scratch);
  }
  /// d [R, C]: gradient of the output on entry, of the input on return.
  void backward(const Pass& pass, const WeightSet& w, const WeightSet& gradient, bool accumulate, ops::WeightSink& sink,
                const BlockSaved& saved, const Tensor& d, const Scratch& scratch) const {
    mlp_.backward(pass, w, gradient, accumulate, sink, saved, d, scratch);
    attention_.backward(pass, w, gradient, accumulate, sink, saved, d, scratch);
  }
  /// forward() behind what the cache holds.
  void extend(const Pass& pass, const WeightSet& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch,
              KvCache& cache) const {
    attention_.extend(pass, w, saved, saved.middle.slice_rows(0, pass.rows()), scratch, cache);
    mlp_.forward(pass, w, saved, out, scratch);
  }

 private:
  AttentionLayer attention_;
  Mlp mlp_;
};

}  // namespace lockstep::model
