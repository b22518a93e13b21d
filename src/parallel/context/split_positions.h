#pragma once

// How ranks of context parallelism divide the positions of every sample: into twice as many parts as there are ranks, of which a
// rank has one from the front and one from the back ("zigzag"), so that all ranks see about as many keys.

#include <cstdint>
#include <functional>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/context_attention.h"

namespace lockstep::parallel {

/// Of `positions` positions those of rank `rank` of `ranks`: parts rank and 2 ranks - 1 - rank of 2 ranks; all for one rank.
ops::Positions split_positions(std::int64_t positions, int rank, int ranks);

/// A way to attend where ranks divide the positions so. Every call is for all of a sample's positions.
class SplitAttention : public ContextAttention {
 public:
  SplitAttention(std::int64_t positions, int rank, int ranks) : positions_(positions), rank_(rank), ranks_(ranks) {}
  void connect(comm::Communicator& group) final { group_ = &group; }

 protected:
  ops::Positions positions_of(int rank) const { return split_positions(positions_, rank, ranks_); }
  std::int64_t rows_of(int rank, std::int64_t samples) const { return samples * positions_of(rank).count(); }
  std::int64_t all_rows(std::int64_t samples) const { return samples * positions_; }
  std::int64_t samples_of(const AttentionSizes& sizes) const { return sizes.rows / positions_of(rank_).count(); }
  /// A rank's rows lie sample by sample, as its positions follow each other; those of all ranks in the order of positions.
  /// visit(first of all rows, first of the rank's rows, count) for each run of neighbours.
  using Visit = std::function<void(std::int64_t all, std::int64_t own, std::int64_t count)>;
  void for_runs(int rank, std::int64_t samples, const Visit& visit) const;
  void demand_own(const AttentionCall& call) const;

  std::int64_t positions_;
  int rank_, ranks_;
  comm::Communicator* group_ = nullptr;
};

}  // namespace lockstep::parallel
