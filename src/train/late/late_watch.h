#pragma once

// Brings together how long each rank worked in its last steps, where ranks wait for each other.

#include <optional>
#include <span>
#include <vector>

#include "parallel/groups.h"
#include "train/engine_config.h"
#include "train/late/late_ranks.h"

namespace lockstep::train {

class LateWatch {
 public:
  /// `groups` are of the ranks that train, and outlive this. There is no watch of one rank, nor of ranks that do not wait for
  /// each other.
  static std::optional<LateWatch> of(const EngineConfig& config, const parallel::Groups& groups);
  /// This rank worked so many seconds in a step, what it waited for others left out.
  void add(double seconds) { mine_.add(seconds); }
  /// All ranks meet between two steps, as many since the last window on each. Returns what has changed, on rank 0. Collective.
  std::span<const LateChange> meet();
  /// On rank 0.
  std::optional<LateRank> worst() const { return late_.worst(); }

 private:
  LateWatch(const std::vector<int>& kinds, comm::Communicator& ranks) : late_(kinds), ranks_(&ranks), seconds_(kinds.size()) {}

  LateRanks late_;
  comm::Communicator* ranks_;
  std::vector<double> seconds_;  // by rank
  WorkWindow mine_;
};

}  // namespace lockstep::train
