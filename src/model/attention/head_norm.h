#pragma once

// RMSNorm of queries and keys head by head, before they are turned (Qwen3): one gain for all heads of queries, one for those of
// keys. R rows of tokens, n heads side by side, D head size.

#include "model/context.h"
#include "model/leases.h"
#include "model/saved.h"
#include "model/weights.h"

namespace lockstep::model {

class HeadNorm {
 public:
  explicit HeadNorm(const Context& context) : context_(context) {}
  bool used() const { return context_.dims.qk_norm && !context_.dims.qk_norm_whole; }
  /// to [R, n D] = the norms of `heads` [R, n D], which may be `to`. Keeps stats [n R, 2].
  void forward(const Tensor& to, const Tensor& stats, const Tensor& heads, const Tensor& gain) const;
  /// Normalises queries and keys of `qkv` [R, (H+2K) D] into saved.qk, as attention reads them. Keeps saved.qk_stats.
  void forward(const LayerWeights& w, const BlockSaved& saved, const Tensor& qkv) const;
  /// d_qkv [R, (H+2K) D]: on entry the gradients of what attention has read, on return of what the product has made.
  void backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const BlockSaved& saved,
                const Tensor& d_qkv) const;
  /// The part of `stats`, those of `rows` tokens, that belongs to the heads of keys.
  Tensor key_stats(const Tensor& stats, std::int64_t rows) const;

 private:
  const Context& context_;
};

}  // namespace lockstep::model
