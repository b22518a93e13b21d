#pragma once

// Context parallelism by exchange (DeepSpeed-Ulysses: Jacobs et al. 2023). While attention runs, each rank has all positions of a
// part of the heads, and the key/value heads that these read. The heads need not be a multiple of the ranks. A key/value head may
// be at several ranks.
//
// Ranks on several hosts exchange inside each host alone. So a rank gets all positions of its host. These positions attend
// together round a ring of hosts.

#include "layout/range.h"
#include "parallel/context/row_exchange.h"

namespace lockstep::parallel {

class ExchangingAttention final : public SplitAttention {
 public:
  /// `rank` of `ranks` ranks that divide `positions` positions. Neighbouring ranks lie on one of `hosts` hosts, as many on each.
  /// `canonical`: only with one host.
  ExchangingAttention(std::int64_t positions, int rank, int ranks, int hosts = 1, bool canonical = false);
  /// Divides `group` where there are several hosts. Collective then.
  void connect(comm::Communicator& group) override;

  void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const override;
  void declare(Arena& arena, const AttentionSizes& sizes) override;
  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override;
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                const AttentionCall& call) override;

 private:
  /// The heads that one rank has inside, counted among those that the ranks have outside.
  struct Heads {
    layout::Range query, kv;
  };
  Heads heads_of(const ops::AttentionShape& outside, int rank) const;
  static ops::AttentionShape shape_of(const layout::ShardedDims& dims);
  static Share share_of(std::int64_t positions, int rank, int ranks, int hosts);
  /// The sizes inside, of this rank's heads.
  layout::ShardedDims dims_inside(const layout::ShardedDims& outside) const;
  void declare_heads(Arena& arena, AttentionTensors& of, const AttentionSizes& sizes, DType of_keys) const;
  /// The call for attention inside: all positions, this rank's heads.
  AttentionCall inside(const AttentionCall& call) const;
  void connect_exchange(comm::Communicator& group);
  /// own = this rank's rows of the sum over ranks of `part`, for which each has some key/value heads of all rows. All f32.
  void add_heads(ops::Ops& ops, const Tensor& own, const Tensor& part, std::int64_t samples);

  ops::Positions together_;                                   ///< the positions that the ranks which exchange have together
  int host_;                                                  ///< the number of this rank's host
  std::unique_ptr<ContextAttention> inner_;                   ///< attends with this rank's heads, and with other hosts
  std::unique_ptr<comm::Communicator> of_host_, over_hosts_;  ///< where there are several hosts
  RowExchange exchange_;
  RowExchange::Columns query_, kv_;  ///< the columns of outside matrices that each rank has inside
  AttentionTensors d_;               ///< gradients inside
  bool canonical_;
  Tensor key_sums_;  ///< [all rows, kv] f32, in canonical mode where ranks share key/value heads
};

}  // namespace lockstep::parallel
