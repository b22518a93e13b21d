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

/// The positions of rank `rank` of `ranks`: where `positions` are cut into 2 ranks parts, parts rank and 2 ranks - 1 - rank. A
/// single rank has all.
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
/// Whether ranks that attend so are dealt positions by documents: where each has all positions inside, or hosts have neighbours
/// together, positions stay in zigzag.
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

/// Rows of `samples` samples of `positions` positions, of which rank r has `parts[r]`. Those of one rank lie sample by sample,
/// all of them in the order of positions.
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

/// A way to attend where ranks divide the positions so. Every call is for whole samples.
class SplitAttention : public ContextAttention {
 public:
  SplitAttention(std::int64_t positions, int rank, int ranks);
  void connect(comm::Communicator& group) override { group_ = &group; }

 protected:
  /// What the ranks of a group have, of a sample's positions those that they have together.
  struct Share {
    std::int64_t positions;             ///< together
    std::vector<ops::Positions> parts;  ///< by rank, counted among these
    int rank;
    ops::Positions own;  ///< the rank's part, as the sample counts
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
  /// What follows is about the positions that this call's ranks have.
  void take_parts(const AttentionCall& call);

  std::int64_t positions_;  ///< of a sample, those that the ranks have together
  int rank_, ranks_;
  comm::Communicator* group_ = nullptr;

 private:
  std::vector<ops::Positions> parts_;  ///< in zigzag; of sizes that all calls' parts have
  std::span<const ops::Positions> now_ = parts_;
  ops::Positions own_;
};

}  // namespace lockstep::parallel
