#pragma once

// The attention sub-layer: x + out(attention(qkv(norm(x)))), queries and keys turned by their position where the model has
// rotary positions.

#include "model/attention/head_norm.h"
#include "model/attention/kv_cache.h"
#include "model/attention/width_norm.h"
#include "model/context.h"
#include "model/sub_layer.h"

namespace lockstep::model {

class AttentionLayer {
 public:
  AttentionLayer(const Context& context, int layer);
  /// out [Ro, C] from saved.x; keeps stats1, qkv, attention and what attention itself keeps.
  void forward(const Pass& pass, const LayerWeights& w, BlockSaved& saved, const Tensor& out, const Scratch& scratch) const;
  /// d [Ro, C]: the gradient of the output on entry, of saved.x on return.
  void backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, BlockSaved& saved, const Tensor& d,
                const Scratch& scratch) const;
  /// Reads new positions of `texts`; `pass` is one sample of them. Their keys and values are written into the cache, which has
  /// those of earlier positions. `saved` is workspace. The bits are those of forward() over each whole text.
  void extend(const Pass& pass, std::span<const ops::CachedText> texts, const LayerWeights& w, BlockSaved& saved,
              const Tensor& out, const Scratch& scratch, KvCache& cache) const;

 private:
  /// What attention reads, made from x [Ro, C], and where its result belongs. Keeps stats1 and qkv.
  parallel::AttentionTensors make_heads(const Pass& pass, const LayerWeights& w, const BlockSaved& saved, const Tensor& x,
                                        const Scratch& scratch) const;
  /// q and k of `qk`, v of `qkv`, and their result `o`.
  parallel::AttentionTensors split(const Tensor& qk, const Tensor& qkv, const Tensor& o) const;
  /// The tensor that has q and k as attention reads them.
  const Tensor& heads_of(const BlockSaved& saved) const { return context_.dims.qk_norm ? saved.qk : saved.qkv; }
  /// The columns of q and k, which lie side by side.
  Tensor turned(const Tensor& qk) const;
  ops::AttentionShape shape(const Pass& pass) const;
  /// Where the positions that each position sees begin.
  const Tensor& starts(const Pass& pass) const { return local_ && pass.window_starts ? pass.window_starts : pass.starts; }
  parallel::AttentionCall call(const Pass& pass) const;
  const Context& context_;
  SubLayer sub_layer_;
  HeadNorm head_norm_;
  WidthNorm width_norm_;
  int layer_;
  bool turns_, local_;  ///< queries and keys turn by position; the layer sees the window alone
};

}  // namespace lockstep::model
