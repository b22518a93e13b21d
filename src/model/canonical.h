#pragma once

// What canonical mode (numerics.md section 3.8) adds to a rank's layers. It says which ranges the rank has of each index that a
// layout may divide. It makes the sums over tokens that a range makes apart. A micro-batch has some of the 8 ranges of a step's
// samples. Sums outside of boundaries, where sequence parallelism divides positions, are also cut into 8 ranges of a sample's
// positions. Where context parallelism divides positions, sums over tokens inside are those of whole samples. Its ranks bring
// rows together, and each makes some columns of the sums. The other columns are zero there, so that the sum over replicas has
// each column once.

#include <memory>
#include <vector>

#include "arch/config.h"
#include "model/sums.h"

namespace lockstep::model {

/// The sizes of a rank's part of a step.
struct CanonicalSizes {
  parallel::TokenGrid tokens;               ///< of a micro-batch, its samples whole
  int microbatches = 1;                     ///< on this rank
  int all_microbatches = 1;                 ///< on all data-parallel ranks: a power of two, at most layout::canonical_ranges
  int context_rank = 0, context_ranks = 1;  ///< among the ranks that divide the positions of samples
};

class Canonical final : public Sums {
 public:
  Canonical(const arch::ModelConfig& config, const layout::ShardedDims& dims, const CanonicalSizes& sizes);

  void declare(Arena& gradients, Arena& workspace, DType type, bool embedding, bool head) override;
  void push(const ops::WeightWork& work) override;
  /// The gradients of gain and bias are of all ranks' rows.
  void norm_backward(ops::Norm& norm, parallel::Boundary& boundary, const Pass& pass, const ops::NormBackward& call) override;
  /// The gradient of the gain is of all ranks' heads and rows.
  void heads_backward(ops::Norm& norm, parallel::Boundary& boundary, const Pass& pass, const HeadsBackward& call) override;
  void width_gain(ops::SplitNorm& norm, const Pass& pass, const WidthGain& call) override;
  /// The sum is over all ranks' rows.
  void sum_rows(parallel::Boundary& boundary, const Pass& pass, const Tensor& sum, const Tensor& rows, bool accumulate) override;
  /// d_tokens gets the rows of the whole step, once its last micro-batch is there; until then they are kept.
  void embed_backward(parallel::Boundary& boundary, const Pass& pass, const EmbeddingBackward& call) override;
  void complete_samples(const Tensor& /*sums*/) override {}  // samples are whole
  double total(std::span<double> losses) const override;

 private:
  /// Ranges [first, first + count) of the vocabulary are judged here.
  void take_vocabulary(const arch::ModelConfig& config, int first, int count);
  /// Calls visit(range, first row, rows, whether the range has rows before), range by range. It visits the pass' rows whose
  /// positions are among `own`, positions of the rank.
  template <class Visit>
  void for_ranges(const layout::Range& own, const Pass& pass, const Visit& visit) const;
  /// Adds `partials` [n, ranges, C] over all ranks and ranges; each of the n sums is left in its first range.
  void add_up(parallel::Boundary& boundary, const Tensor& partials);
  /// Adds the ranges of `sums` [n, ranges, columns]; each sum is left in the first of them.
  void add_ranges(const Tensor& sums, std::int64_t ranges) const;
  /// The range of heads that sums `head`, a head of the rank. -1: another rank, which shares the key/value head, sums it.
  int range_of(std::int64_t head, bool of_keys) const;
  /// to [C] = `sum`, which all ranks of a sequence have, on the first of these ranks, and zero on the others.
  void leave_once(const Tensor& to, const Tensor& sum) const;
  /// The first [count ranges, columns] of partials_, set to zero.
  Tensor cleared(std::int64_t count, std::int64_t columns) const;
  /// d_table [P, C] f32 = the sum of dy [R', C] by position (Embedding::backward_positions).
  void sum_positions(const Tensor& d_table, const Tensor& dy, const Tensor& starts) const;

  CanonicalSizes sizes_;
  ops::SumGrid step_tokens_;  ///< as `tokens`, for the rows of all micro-batches, one behind the other
  std::int64_t table_rows_;   ///< of learned positions, 0: there are none
  std::int64_t ranges_;       ///< of samples and positions in a micro-batch
  Tensor partials_;           ///< [ranges, 2 C] f32, or as many columns as this rank has queries' features, if that is more
  Tensor head_sums_;          ///< [8 ranges of heads x ranges, and one, D] f32, where heads are normalised
  std::int64_t all_heads_;
  std::vector<Tensor> position_places_;  ///< [P, C] f32 each
  Tensor rows_, order_;                  ///< of a step: [R', this rank's columns of C]; [2 R'] i64 to sort step_ids
};

/// The sums of a rank that reads and goes nowhere back: canonical ones, or those of Sums.
std::unique_ptr<Sums> make_reading_sums(const arch::ModelConfig& config, const layout::ShardedDims& dims, bool canonical);

}  // namespace lockstep::model
