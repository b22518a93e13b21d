#pragma once

// Context parallelism by exchange (DeepSpeed-Ulysses: Jacobs et al. 2023): while attention runs, each rank has all positions of a
// part of the heads, and the key/value heads that these read. Heads need not divide; a key/value head may be at several ranks.
//
// Ranks on several hosts exchange inside each host alone, so that a rank gets all positions of its host, and these attend
// together round a ring of hosts.

#include "layout/range.h"
#include "parallel/context/split_positions.h"

namespace lockstep::parallel {

class ExchangingAttention final : public SplitAttention {
 public:
  /// `rank` of `ranks` ranks that divide `positions` positions, of which neighbours lie on one of `hosts` hosts, as many on each.
  ExchangingAttention(std::int64_t positions, int rank, int ranks, int hosts = 1);
  /// With several hosts `group` is divided: collective.
  void connect(comm::Communicator& group) override;

  void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const override;
  void declare(Arena& arena, const AttentionSizes& sizes) override;
  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override;
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                const AttentionCall& call) override;

 private:
  /// Of those that the ranks have outside, the heads that one of them has inside.
  struct Heads {
    layout::Range query, kv;
  };
  Heads heads_of(const ops::AttentionShape& outside, int rank) const;
  static ops::AttentionShape shape_of(const layout::ShardedDims& dims);
  static Share share_of(std::int64_t positions, int rank, int ranks, int hosts);
  /// The sizes inside, of this rank's heads.
  layout::ShardedDims dims_inside(const layout::ShardedDims& outside) const;
  void declare_heads(Arena& arena, AttentionTensors& of, const AttentionSizes& sizes) const;
  /// The call that attention gets: all positions, this rank's heads.
  AttentionCall inside(const AttentionCall& call) const;
  /// Which columns each rank has inside, of matrices that lie outside.
  using Columns = std::vector<layout::Range>;
  /// all [all rows, this rank's columns] of every rank's own [its rows, all columns].
  void inwards(ops::Ops& ops, const Tensor& all, const Tensor& own, const Columns& columns, std::int64_t samples);
  /// The way back; what several ranks have of a head is summed.
  void outwards(ops::Ops& ops, const Tensor& own, const Tensor& all, const Columns& columns, std::int64_t samples);
  /// sent_, of which outgoing_[r] elements are for rank r, to received_, of which incoming_[r] are from it.
  void exchange(ops::Ops& ops);

  ops::Positions together_;                                   ///< of the ranks that exchange
  int host_;                                                  ///< of hosts
  std::unique_ptr<ContextAttention> inner_;                   ///< of this rank's heads, with other hosts where there are any
  std::unique_ptr<comm::Communicator> of_host_, over_hosts_;  ///< where there are several hosts
  Columns query_, kv_;
  Tensor sent_, received_;  ///< messages, rank by rank, each a matrix of its own
  AttentionTensors d_;      ///< inside
  std::vector<std::int64_t> outgoing_, incoming_;
};

}  // namespace lockstep::parallel
