#pragma once

// One transformer block: attention, then feed-forward, each on the residual stream (pre-norm).

#include "model/attention/attention.h"
#include "model/leases.h"
#include "model/mlp.h"

namespace lockstep::model {

class Block {
 public:
  Block(const Context& context, int layer) : attention_(context, layer), mlp_(context, layer) {}
  /// out [Ro, C] from saved.x; out may be saved.x when nothing goes backward.
  void forward(const Pass& pass, BlockWeights& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const {
    attention_.forward(pass, w.attention(), saved, saved.middle.slice_rows(0, out.rows()), scratch);
    mlp_.forward(pass, w.mlp(), saved, out, scratch);
  }
  /// Makes again what forward() left in `saved`, without the output. It starts from saved.x [Ro, C]; or it makes
  /// saved.pre_activation alone, from the rest.
  void run_again(const Pass& pass, BlockWeights& w, BlockSaved& saved, std::int64_t rows, const Scratch& scratch,
                 bool from_input) const {
    if (from_input) attention_.forward(pass, w.attention(), saved, saved.middle.slice_rows(0, rows), scratch);
    mlp_.run_again(pass, w.mlp(), saved, rows, scratch, from_input);
  }
  /// d [Ro, C]: gradient of the output on entry, of the input on return. What is pushed to the gradients' sink lies in `saved`
  /// and in `scratch`. It also lies in d, unless the scratch keeps the branch.
  void backward(const Pass& pass, BlockWeights& w, const Gradients& gradients, BlockSaved& saved, const Tensor& d,
                const BackwardScratch& scratch) const {
    mlp_.backward(pass, w.mlp(), gradients, saved, d, scratch.mlp);
    attention_.backward(pass, w.attention(), gradients, saved, d, scratch.attention);
  }
  /// As forward(), for positions of texts behind those that the cache has.
  void extend(const Pass& pass, std::span<const ops::CachedText> texts, BlockWeights& w, BlockSaved& saved, const Tensor& out,
              const Scratch& scratch, KvCache& cache) const {
    attention_.extend(pass, texts, w.attention(), saved, saved.middle.slice_rows(0, out.rows()), scratch, cache);
    mlp_.forward(pass, w.mlp(), saved, out, scratch);
  }

 private:
  AttentionLayer attention_;
  Mlp mlp_;
};

}  // namespace lockstep::model
