#pragma once

// Canonical mode (numerics.md section 3.8) where ranks share a key/value head. The head's gradient is a sum over query heads of
// several ranks. The sum is complete before anything is made of it.

#include "layout/sharded_dims.h"
#include "ops/ops.h"
#include "parallel/boundary.h"
#include "parallel/context_attention.h"
#include "tensor/arena.h"

namespace lockstep::parallel {

class KeySums {
 public:
  /// For ranks that share no key/value head.
  KeySums() = default;
  /// `all`: key/value heads of the model.
  KeySums(const layout::ShardedDims& dims, std::int64_t all, int context_ranks);
  /// Declares memory for at most `rows` rows.
  void declare(Arena& workspace, std::int64_t rows);

  /// Returns `d`, with other memory for the gradients of keys and values where ranks share a head.
  AttentionTensors begin(ops::Ops& ops, const AttentionTensors& d) const;
  /// Sums the gradients over the ranks inside of `boundary`, and leaves them in d.k and d.v.
  void finish(ops::Ops& ops, Boundary& boundary, const AttentionTensors& d) const;

 private:
  Tensor sums(std::int64_t number, std::int64_t rows) const;
  Tensor own(const Tensor& sums) const;

  layout::ShardedDims dims_;
  std::int64_t all_ = 0;
  bool any_ = false;  ///< ranks share a key/value head
  Tensor sums_;       ///< [2, R, all heads * D] f32
};

}  // namespace lockstep::parallel
