#pragma once

// Context parallelism by gathering (Llama Team 2024, section 3.3.2): every rank gets the keys and values of all positions and
// attends with its own queries. Keys are walked as one rank walks them, so the forward pass has its bits.

#include "parallel/context/split_positions.h"

namespace lockstep::parallel {

class GatheringAttention final : public SplitAttention {
 public:
  using SplitAttention::SplitAttention;

  void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const override;
  void declare(Arena& arena, const AttentionSizes& sizes) override;
  /// Declares only the memory that forward() uses.
  void declare_forward(Arena& arena, const AttentionSizes& sizes);
  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override;
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                const AttentionCall& call) override;

 private:
  /// Neighbouring positions of one sample, and the keys up to the last of them.
  struct Run {
    std::int64_t first_row, first_key;  ///< among the rank's own rows, among all positions' rows
    ops::AttentionShape shape;
    ops::DropoutSite dropout;
    Tensor starts;
    AttentionTensors of(const AttentionTensors& own, const AttentionTensors& all) const;
    Tensor lse(const AttentionSaved& saved) const;
  };
  Run run_of(const AttentionCall& call, std::int64_t all, std::int64_t own, std::int64_t count) const;
  /// all [all rows, columns] = every rank's own rows, in the order of positions.
  void gather(ops::Ops& ops, const Tensor& all, const Tensor& own, std::int64_t samples);
  /// Adds the gradient of the first keys of a sample to `sums`, where ranks' rows lie rank by rank.
  void add(ops::Ops& ops, const Tensor& sums, const Tensor& part, std::int64_t sample, std::int64_t samples) const;
  /// own = this rank's rows of `sums` [all rows, columns], added over ranks.
  void scatter(ops::Ops& ops, const Tensor& own, const Tensor& sums, std::int64_t samples);
  /// How many elements each rank has of a matrix of `columns` columns with the rows of all ranks.
  const std::vector<std::int64_t>& elements_of_ranks(std::int64_t samples, std::int64_t columns);
  /// The number of rows that ranks before `rank` have.
  std::int64_t before(int rank, std::int64_t samples) const;

  Tensor delta_;              ///< [own rows, ops::delta_columns] f32
  Tensor message_;            ///< [all rows, kv], rank by rank
  Tensor dk_sums_, dv_sums_;  ///< [all rows, kv] f32, rank by rank
  Tensor dk_, dv_;            ///< [positions, kv]: of the keys that one run sees
  Tensor widened_;            ///< [positions, kv] f32: dk_ or dv_; where these are bf16
  std::vector<std::int64_t> counts_;
};

}  // namespace lockstep::parallel
