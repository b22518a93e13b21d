#pragma once

// Context parallelism by a ring (Liu et al. 2023): keys and values travel from rank to rank. Each rank's queries attend to those
// that come by, in one online softmax over all of them. No rank ever has more keys and values than two ranks' parts. What
// causality hides is not computed. In zigzag all own queries see the front run of an earlier rank's keys, and none its back run.
// Only the own back run's queries see a later rank's keys.

#include "parallel/context/split_positions.h"

namespace lockstep::parallel {

class RingAttention final : public SplitAttention {
 public:
  using SplitAttention::SplitAttention;

  void declare(Arena& arena, AttentionSaved& saved, const AttentionSizes& sizes) const override;
  void declare(Arena& arena, const AttentionSizes& sizes) override;
  void forward(ops::Ops& ops, const AttentionTensors& x, const AttentionSaved& saved, const AttentionCall& call) override;
  void backward(ops::Ops& ops, const AttentionTensors& d, const AttentionTensors& x, const AttentionSaved& saved,
                const AttentionCall& call) override;

 private:
  /// Rows of keys and as many rows of values, one behind the other in one message.
  struct Pair {
    Tensor both, k, v;
  };
  /// A message to the next rank and one from the rank before.
  struct Passing {
    comm::Request sent, received;
    void join(ops::Ops& ops);
  };
  /// Queries of one run of a sample, and keys of one run that another rank may have.
  struct Block {
    std::int64_t row, key_row;  ///< among the rank's own rows, among those of the keys' rank
    ops::AttentionShape shape;
    ops::DropoutSite dropout;
    Tensor starts;
    bool further;  ///< other keys came before; the first that queries see are those of their own run
    Tensor queries(const Tensor& of) const { return of.slice_rows(row, shape.queries); }
    Tensor keys(const Tensor& of) const { return of.slice_rows(key_row, shape.keys); }
    Tensor lse(const AttentionSaved& saved) const { return saved.lse.flat(row * shape.heads, shape.queries * shape.heads); }
  };
  /// Calls use(block) for what the rank's queries see of rank `from`'s keys.
  template <class Use>
  void for_blocks(const AttentionCall& call, int from, const Use& use) const;
  std::int64_t most_rows(std::int64_t samples) const;
  /// The rank whose keys this rank has after `hops` hops.
  int origin(int hops) const { return (rank_ + ranks_ - hops % ranks_) % ranks_; }
  Pair pair(const Tensor& memory, int from, std::int64_t samples) const;
  /// The keys and values of a hop, and the sums of their gradients. Ranks' parts take turns in this memory.
  Pair keys_at(int hop, std::int64_t samples) const { return pair(keys_[hop % 2], origin(hop), samples); }
  Pair sums_at(int turn, int hop, std::int64_t samples) const { return pair(sums_[turn % 3], origin(hop), samples); }
  /// Puts the rank's own keys and values where their way round the ring begins.
  void set_out(ops::Ops& ops, const AttentionTensors& x, std::int64_t samples);
  /// Starts to send what this hop reads and to receive what the next one does.
  Passing pass_keys(int hop, std::int64_t samples);
  /// Where `rows`, results or gradients of queries, are summed in f32: `rows` themselves, or memory that is rounded to them in
  /// the end.
  Tensor sums_of(const Tensor& rows) const { return rows.dtype == DType::f32 ? rows : wide_.slice_rows(0, rows.rows()); }

  Tensor keys_[2];  ///< [2 most rows, kv]: of this hop and the next
  Tensor sums_[3];  ///< [2 most rows, kv] f32: made in this hop, sent after the hop before, and come from the rank before
  Tensor delta_;    ///< [rows of a run, ops::delta_columns] f32
  Tensor wide_;     ///< [own rows, heads] f32; where activations are bf16
};

}  // namespace lockstep::parallel
