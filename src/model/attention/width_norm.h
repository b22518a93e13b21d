#pragma once

// RMSNorm of the queries of all heads together, and of all keys, before they are turned (OLMo 2). Tensor ranks have some of the
// heads each. Their sums of squares, and on the way back of products, are added over the ranks (ops/split_norm). R rows of
// tokens, H heads and K key/value heads of this rank, D head size.

#include <vector>

#include "model/context.h"
#include "model/leases.h"
#include "model/saved.h"
#include "model/weights.h"

namespace lockstep::model {

class WidthNorm {
 public:
  explicit WidthNorm(const Context& context);
  bool used() const { return context_.dims.qk_norm_whole; }
  /// Normalises queries and keys of `qkv` [R, (H+2K) D] into saved.qk, as attention reads them. Keeps saved.qk_stats.
  void forward(const LayerWeights& w, const BlockSaved& saved, const Tensor& qkv, const Scratch& scratch) const;
  /// d_qkv [R, (H+2K) D]: on entry the gradients of what attention has read, on return of what the product has made.
  void backward(const Pass& pass, const LayerWeights& w, const Gradients& gradients, const BlockSaved& saved, const Tensor& d_qkv,
                const Scratch& scratch) const;

 private:
  /// Queries, or keys: the columns that this rank sums, each range by itself.
  struct Side {
    arch::Role gain;
    std::int64_t features;                ///< of the whole model
    layout::Range columns;                ///< of qkv
    std::vector<layout::Range> squares;   ///< one rank of those that have a key/value head counts it
    std::vector<layout::Range> products;  ///< with the gradient
    layout::Range complete = {};          ///< what the mean product is taken away of
  };
  /// Memory for the sums of queries and keys of `rows` rows: a row for each range.
  Tensor sums(const Scratch& scratch, std::int64_t rows) const;
  /// A side's columns of the sums: the queries' come first.
  layout::Range places(const Side& side, std::int64_t rows) const;
  /// The sums over all ranges and ranks, in the first row of `sums`.
  Tensor added_up(const Tensor& sums) const;

  const Context& context_;
  Side queries_, keys_;
};

}  // namespace lockstep::model
