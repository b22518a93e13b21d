#pragma once

// What canonical mode (numerics.md section 3.8) adds to a rank's layers: which ranges of each index that a layout may divide the
// rank has, and the sums over tokens that a range makes apart. A micro-batch has some of the 8 ranges of a step's samples; what
// is summed outside of boundaries, where sequence parallelism divides positions, is also cut into 8 ranges of a sample's
// positions.

#include <vector>

#include "arch/config.h"
#include "layout/sharded_dims.h"
#include "ops/ops.h"
#include "parallel/boundary.h"
#include "tensor/arena.h"

namespace lockstep::model {

/// Of a rank's part of a step.
struct CanonicalSizes {
  parallel::TokenGrid tokens;  ///< of a micro-batch
  int microbatches = 1;        ///< on this rank
  int all_microbatches = 1;    ///< on all data-parallel ranks: a power of two, at most layout::canonical_ranges
};

class Canonical {
 public:
  Canonical(const arch::ModelConfig& config, const layout::ShardedDims& dims, const CanonicalSizes& sizes);
  Canonical(const Canonical&) = delete;
  Canonical& operator=(const Canonical&) = delete;

  /// What training takes, of a rank that has the embedding or the head or both. `type`: of activations.
  void declare(Arena& gradients, Arena& workspace, DType type, bool embedding, bool head);

  // The ranges that this rank has.
  ops::SumGrid heads;        ///< of the inputs of attention's last product
  ops::SumGrid qkv;          ///< of its first product's outputs: the heads of q, k and v of a range
  ops::SumGrid features;     ///< of the inputs of the feed-forward layer's last product
  ops::SumGrid up;           ///< of its first product's outputs: of the gate, where there is one, and of what goes up
  ops::SumGrid vocabulary;   ///< of the head's outputs
  ops::SumGrid tokens;       ///< of a micro-batch's rows inside of boundaries; as many as losses
  ops::SumGrid step_tokens;  ///< of those of all micro-batches, one behind the other

  /// Ranges of samples in a micro-batch; each has a loss of its own.
  int sample_ranges() const { return static_cast<int>(tokens.ranges.size()); }
  /// The number of the first range of the vocabulary that this rank has.
  int first_vocabulary_range() const { return first_range_; }

  /// Norm::backward() of rows outside of `boundary`, with the gradients of gain and bias of all its ranks' rows.
  void norm_backward(ops::Ops& ops, ops::Norm& norm, parallel::Boundary& boundary, const ops::NormBackward& call) const;
  /// sum [C] f32 = the sum of `rows` [Ro, C] of all ranks of `boundary`.
  void sum_rows(ops::Ops& ops, parallel::Boundary& boundary, const Tensor& sum, const Tensor& rows) const;

  /// Where range `range` of a micro-batch puts its part of `gradient`, that of the head's matrix; place 0 is the gradient itself.
  Tensor head_place(const Tensor& gradient, int place) const {
    return place == 0 ? gradient : head_places_[static_cast<std::size_t>(place) - 1].reshape(gradient.shape);
  }
  /// d_table [P, C] f32 = the sum of dy [R, C] by position (Embedding::backward_positions).
  void sum_positions(ops::Ops& ops, const Tensor& d_table, const Tensor& dy, const ops::Positions& positions,
                     const Tensor& starts) const;
  /// d_tokens += the rows dy [R, C] of a step's tokens, `ids`, once the last of its micro-batches is there; until then they are
  /// kept.
  void add_tokens(ops::Ops& ops, const Tensor& d_tokens, const Tensor& dy, const Tensor& ids, std::int64_t first_token,
                  int microbatch) const;

 private:
  /// visit(range, first row, rows, whether the range has rows before) of the rows outside of a boundary, range by range.
  template <class Visit>
  void for_ranges(const parallel::Boundary& boundary, const Visit& visit) const;
  /// Of `partials` [n, ranges, C]: the sums of all ranks and ranges, left in the first range of each.
  void add_up(ops::Ops& ops, parallel::Boundary& boundary, const Tensor& partials) const;
  /// The first `count` matrices of partials_, zero.
  Tensor cleared(ops::Ops& ops, std::int64_t count) const;

  CanonicalSizes sizes_;
  int first_range_;
  std::int64_t width_, vocabulary_, table_rows_;  ///< table_rows_: of learned positions, 0: there are none
  std::int64_t ranges_;                           ///< of samples and positions in a micro-batch
  Tensor partials_;                               ///< [2, ranges, C] f32
  std::vector<Tensor> head_places_;               ///< [V C] f32 each
  std::vector<Tensor> position_places_;           ///< [P, C] f32 each
  Tensor rows_, row_tokens_, order_;              ///< of a step: [R', C], [R'] i32; [2 R'] i64 to sort these
};

}  // namespace lockstep::model
