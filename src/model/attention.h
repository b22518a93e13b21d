#pragma once

// The attention sub-layer: x + out(attention(qkv(norm(x)))), queries and keys turned by their position where the model has
// rotary positions.

#include "model/context.h"
#include "model/kv_cache.h"
#include "model/sub_layer.h"

namespace lockstep::model {

class AttentionLayer {
 public:
  AttentionLayer(const Context& context, int layer);
  /// out [R, C] from saved.x; keeps stats1, qkv, attention and what attention itself keeps.
  void forward(const Pass& pass, const LayerWeights& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const;
  /// d [R, C]: the gradient of the output on entry, of saved.x on return.
  void backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, BlockSaved& saved, const Tensor& d,
                const Scratch& scratch) const;
  /// Tokens of some new positions a sample behind cache.length() earlier ones; their keys and values are written into the cache.
  /// Uses saved as workspace. Equal bits with forward() over the whole text.
  void extend(const Pass& pass, const LayerWeights& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch,
              KvCache& cache) const;

 private:
  /// What the columns of `qkv` are, and the result that belongs to them.
  parallel::AttentionTensors split(const Tensor& qkv, const Tensor& o) const;
  /// The columns of q and k, which lie side by side.
  Tensor turned(const Tensor& qkv) const;
  ops::AttentionShape shape(const Pass& pass) const;
  parallel::AttentionCall call(const Pass& pass) const;
  const Context& context_;
  SubLayer sub_layer_;
  int layer_;
};

}  // namespace lockstep::model
