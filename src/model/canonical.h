#pragma once

// What canonical mode (numerics.md section 3.8) adds to a rank's layers: which ranges of each index that a layout may divide the
// rank has, and the sums over tokens that a range makes apart. A micro-batch has some of the 8 ranges of a step's samples; what
// is summed outside of boundaries, where sequence parallelism divides positions, is also cut into 8 ranges of a sample's
// positions. Where context parallelism divides them, sums over tokens inside are those of whole samples: its ranks bring rows
// together, and each makes some columns of the sums; the others are zero there, so that the sum over replicas has them once.

#include <vector>

#include "arch/config.h"
#include "layout/sharded_dims.h"
#include "ops/ops.h"
#include "ops/weight_work.h"
#include "parallel/boundary.h"
#include "parallel/context/key_sums.h"
#include "parallel/context/whole_samples.h"
#include "tensor/arena.h"

namespace lockstep::model {

struct Pass;

/// Of a rank's part of a step.
struct CanonicalSizes {
  parallel::TokenGrid tokens;               ///< of a micro-batch, its samples whole
  int microbatches = 1;                     ///< on this rank
  int all_microbatches = 1;                 ///< on all data-parallel ranks: a power of two, at most layout::canonical_ranges
  int context_rank = 0, context_ranks = 1;  ///< of those that divide the positions of samples
};

class Canonical {
 public:
  Canonical(const arch::ModelConfig& config, const layout::ShardedDims& dims, const CanonicalSizes& sizes);
  Canonical(const Canonical&) = delete;
  Canonical& operator=(const Canonical&) = delete;

  /// The ranks that have the samples' other positions, where there are any; before the first pass.
  void connect(comm::Communicator& context) { samples_.connect(context); }
  /// What training takes, of a rank that has the embedding or the head or both. `type`: of activations.
  void declare(Arena& gradients, Arena& workspace, DType type, bool embedding, bool head);

  // The ranges that this rank has.
  ops::SumGrid heads;        ///< of the inputs of attention's last product
  ops::SumGrid qkv;          ///< of its first product's outputs: the heads of q, k and v of a range
  ops::SumGrid features;     ///< of the inputs of the feed-forward layer's last product
  ops::SumGrid up;           ///< of its first product's outputs: of the gate, where there is one, and of what goes up
  ops::SumGrid vocabulary;   ///< of judged(), the head's outputs
  ops::SumGrid tokens;       ///< of the rows of a micro-batch's whole samples; as many as losses
  ops::SumGrid step_tokens;  ///< of those of all micro-batches, one behind the other

  /// Ranges of samples in a micro-batch; each has a loss of its own.
  int sample_ranges() const { return static_cast<int>(tokens.ranges.size()); }
  /// Of the tensor rank's vocabulary the rows that this rank judges: ranks that divide positions judge whole samples, each a part
  /// of the vocabulary.
  const layout::Range& judged() const { return judged_; }
  /// The number of the first range of the vocabulary that is judged here.
  int first_vocabulary_range() const { return first_vocabulary_range_; }
  const parallel::KeySums& keys() const { return keys_; }
  /// Ranks that divide positions, and how they bring them together.
  parallel::WholeSamples& samples() { return samples_; }

  /// Makes the gradient of a matrix and its bias, of `work` by ranges of its rows.
  void backward_weight(ops::Ops& ops, const ops::WeightWork& work);
  /// Norm::backward() of the pass' rows outside of `boundary`, with the gradients of gain and bias of all ranks' rows.
  void norm_backward(ops::Ops& ops, ops::Norm& norm, parallel::Boundary& boundary, const Pass& pass,
                     const ops::NormBackward& call);
  /// sum [C] f32 = the sum of the pass' `rows` [Ro, C] of all ranks.
  void sum_rows(ops::Ops& ops, parallel::Boundary& boundary, const Pass& pass, const Tensor& sum, const Tensor& rows);

  /// Where range `range` of a micro-batch puts its part of `gradient`, that of the head's matrix; place 0 is the gradient itself.
  Tensor head_place(const Tensor& gradient, int place) const {
    return place == 0 ? gradient : head_places_[static_cast<std::size_t>(place) - 1].reshape(gradient.shape);
  }
  /// The tokens of whole samples of a step's micro-batches, one behind the other, which are there before the first
  /// embed_backward(); where the embedding is.
  const Tensor& step_ids() const { return step_ids_; }
  /// From dy [R, C], the gradient of the embedding's rows of a micro-batch: d_positions [P, C] f32, that of learned positions,
  /// unless it is empty; and d_tokens += the rows of the whole step, once its last micro-batch is there; until then they are
  /// kept.
  void embed_backward(ops::Ops& ops, const Pass& pass, const Tensor& d_positions, const Tensor& d_tokens, const Tensor& dy,
                      std::int64_t first_token, int microbatch);

 private:
  /// Ranges [first, first + count) of the vocabulary are judged here.
  void take_vocabulary(const arch::ModelConfig& config, int first, int count);
  /// visit(range, first row, rows, whether the range has rows before) of the pass' rows outside of a boundary, range by range.
  template <class Visit>
  void for_ranges(const parallel::Boundary& boundary, const Pass& pass, const Visit& visit) const;
  /// Of `partials` [n, ranges, C]: the sums of all ranks and ranges, left in the first range of each.
  void add_up(ops::Ops& ops, parallel::Boundary& boundary, const Tensor& partials);
  /// to [C] = a sum that all ranks of a sequence have: on the first of them, and zero on the others.
  void leave_once(ops::Ops& ops, const Tensor& to, const Tensor& sum) const;
  /// The first `count` matrices of partials_, zero.
  Tensor cleared(ops::Ops& ops, std::int64_t count) const;
  /// d_table [P, C] f32 = the sum of dy [R', C] by position (Embedding::backward_positions).
  void sum_positions(ops::Ops& ops, const Tensor& d_table, const Tensor& dy, const Tensor& starts) const;

  CanonicalSizes sizes_;
  parallel::WholeSamples samples_;
  parallel::KeySums keys_;
  layout::Range judged_;
  int first_vocabulary_range_;
  layout::ShardedDims dims_;
  std::int64_t table_rows_;              ///< of learned positions, 0: there are none
  std::int64_t ranges_;                  ///< of samples and positions in a micro-batch
  Tensor partials_;                      ///< [2, ranges, C] f32
  std::vector<Tensor> head_places_;      ///< [V C] f32 each
  std::vector<Tensor> position_places_;  ///< [P, C] f32 each
  Tensor rows_, step_ids_, order_;       ///< of a step: [R', own columns of C], [R'] i32; [2 R'] i64 to sort these
};

}  // namespace lockstep::model
