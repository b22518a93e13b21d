#pragma once

// Which rank of a pipeline has which stages of the model. A rank has a stage as one chunk. A rank's chunks are its stages in the
// model's order.

#include <vector>

namespace lockstep::layout {

/// Ranks of a pipeline that have the stages before and behind one; -1 where there is none.
struct Neighbours {
  int before = -1, behind = -1;
  friend bool operator==(const Neighbours&, const Neighbours&) = default;
};

class StageMap {
 public:
  /// `rank_of`: each stage's rank, in the model's order. Throws BrokenRule where one of `ranks` ranks has no stage, or a stage is
  /// with none of them.
  StageMap(int ranks, std::vector<int> rank_of);
  /// Chunk c of rank r is stage c ranks + r (Narayanan et al. 2021, section 2.2).
  static StageMap looped(int ranks, int chunks);
  /// Rank r has stages r and 2 ranks - 1 - r: the first rank has both ends of the model (Qi et al. 2024, section 3).
  static StageMap vee(int ranks);

  int ranks() const { return static_cast<int>(stages_of_.size()); }
  int stages() const { return static_cast<int>(rank_of_.size()); }
  int rank_of(int stage) const { return rank_of_[static_cast<std::size_t>(stage)]; }
  /// The stage's number among those of its rank.
  int chunk_of(int stage) const { return chunk_of_[static_cast<std::size_t>(stage)]; }
  const std::vector<int>& stages_of(int rank) const { return stages_of_[static_cast<std::size_t>(rank)]; }
  /// The neighbours of each of the rank's stages.
  std::vector<Neighbours> neighbours_of(int rank) const;
  /// The ranks that have the embedding and the head.
  int first_rank() const { return rank_of_.front(); }
  int last_rank() const { return rank_of_.back(); }
  friend bool operator==(const StageMap&, const StageMap&) = default;

 private:
  std::vector<int> rank_of_, chunk_of_;
  std::vector<std::vector<int>> stages_of_;
};

}  // namespace lockstep::layout
