#pragma once

// How ranks of context parallelism divide the positions of every sample. There are twice as many parts as ranks. A rank has one
// part from the front and one from the back ("zigzag"), so that all ranks see about as many keys. Where samples are several
// documents, these decide which two parts a rank has.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "ops/ops.h"
#include "parallel/context_attention.h"

namespace lockstep::parallel {

/// The positions of rank `rank` of `ranks`. `positions` are cut into 2 ranks parts; the rank has parts `rank` and 2 ranks - 1 -
/// rank. A single rank has all.
ops::Positions split_positions(std::int64_t positions, int rank, int ranks);

/// Fills `parts`, by rank, with the positions of each rank among `positions`, as split_positions() says.
void split_all_positions(std::span<ops::Positions> parts, std::int64_t positions);
/// Deals the same 2 n parts out to n ranks, two to each, by what they cost. A query costs the keys that it sees: from the start
/// of its document to itself. The part that costs most goes with the one that costs least, and so on. No other way to deal them
/// out in pairs leaves less to the rank with the most. Samples of one document are divided in zigzag. Parts of different lengths
/// (positions that 2 n does not divide) stay in zigzag: every rank has as many positions as split_positions() gives it.
class DocumentSplit {
 public:
  explicit DocumentSplit(int ranks) : parts_(2 * static_cast<std::size_t>(ranks)) {}
  /// `starts` [samples * positions], on the host, says where each position's document begins. Allocates nothing.
  void split(std::span<ops::Positions> by_rank, std::int64_t positions, std::span<const std::int32_t> starts);

 private:
  /// Neighbouring positions of every sample, and how many keys their queries see.
  struct Part {
    std::int64_t first, keys;
  };
  std::vector<Part> parts_;
};
/// Whether ranks that attend by `method` are dealt positions by documents. Positions stay in zigzag where each rank has all
/// positions inside, or where the ranks of a host have neighbouring positions together.
bool splits_by_documents(layout::ContextMethod method);

/// Calls visit(first of all rows, first of the rank's rows, count) for each run of neighbours in `samples` samples. The rank's
/// rows lie sample by sample, in the order of `own`. All rows lie sample by sample, in the order of the `positions` positions.
template <class Visit>
void for_runs(const ops::Positions& own, std::int64_t positions, std::int64_t samples, const Visit& visit) {
  std::int64_t row = 0;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    for (const ops::PositionRun& run : own.runs()) {
      if (run.count > 0) visit(sample * positions + run.first, row, run.count);
      row += run.count;
    }
  }
}

/// The rows of `samples` samples of `positions` positions. Rank r has the positions `parts[r]` of each sample. The rows of one
/// rank lie sample by sample. So do the rows of all ranks, each sample's in the order of positions.
struct SplitRows {
  std::span<const ops::Positions> parts;
  std::int64_t positions, samples;

  std::int64_t all() const { return samples * positions; }
  std::int64_t of_rank(int rank) const { return samples * of(rank).count(); }
  /// visit(first of all rows, first of the rank's rows, count) for each run of neighbours.
  template <class Visit>
  void for_runs(int rank, const Visit& visit) const {
    parallel::for_runs(of(rank), positions, samples, visit);
  }

 private:
  const ops::Positions& of(int rank) const { return parts[static_cast<std::size_t>(rank)]; }
};

/// A way to attend where ranks divide positions as split_positions() or DocumentSplit says. Every call is for whole samples.
class SplitAttention : public ContextAttention {
 public:
  SplitAttention(std::int64_t positions, int rank, int ranks);
  void connect(comm::Communicator& group) override { group_ = &group; }

 protected:
  /// What each rank of a group has of the positions that the group has together.
  struct Share {
    std::int64_t positions;             ///< of a sample, which the ranks have together
    std::vector<ops::Positions> parts;  ///< by rank, numbered among the group's positions
    int rank;
    ops::Positions own;  ///< the rank's part, numbered in the whole sample
  };
  explicit SplitAttention(Share share);
  SplitAttention(const SplitAttention&) = delete;
  SplitAttention& operator=(const SplitAttention&) = delete;
  const ops::Positions& positions_of(int rank) const { return now_[static_cast<std::size_t>(rank)]; }
  std::int64_t rows_of(int rank, std::int64_t samples) const { return split_rows(samples).of_rank(rank); }
  std::int64_t all_rows(std::int64_t samples) const { return split_rows(samples).all(); }
  std::int64_t samples_of(const AttentionSizes& sizes) const { return sizes.rows / positions_of(rank_).count(); }
  SplitRows split_rows(std::int64_t samples) const { return {now_, positions_, samples}; }
  template <class Visit>
  void for_runs(int rank, std::int64_t samples, const Visit& visit) const {
    split_rows(samples).for_runs(rank, visit);
  }
  void demand_own(const AttentionCall& call) const;
  /// Takes over the positions by rank of `call`. positions_of() and what is built on it follow them from now on.
  void take_parts(const AttentionCall& call);

  std::int64_t positions_;  ///< of a sample, those that the ranks have together
  int rank_, ranks_;
  comm::Communicator* group_ = nullptr;

 private:
  std::vector<ops::Positions> parts_;  ///< in zigzag; the parts of all calls have the same sizes
  std::span<const ops::Positions> now_ = parts_;
  ops::Positions own_;
};

}  // namespace lockstep::parallel
