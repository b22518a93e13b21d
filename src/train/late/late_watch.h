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
  /// `groups` are of the ranks that train, and outlive the watch. None for a single rank and for ranks that do not wait for each
  /// other.
  static std::optional<LateWatch> of(const EngineConfig& config, const parallel::Groups& groups);
  /// Counts the seconds that this rank worked in a step, without its waiting for others.
  void add(double seconds) { mine_.add(seconds); }
  /// All ranks meet between two steps, each with as many steps since the last window. Returns on rank 0 who became late or no
  /// longer is. Collective.
  std::span<const LateChange> meet();
  /// The late rank that the others wait for longest. On rank 0.
  std::optional<LateRank> worst() const { return late_.worst(); }

 private:
  LateWatch(const std::vector<int>& kinds, comm::Communicator& ranks) : late_(kinds), ranks_(&ranks), seconds_(kinds.size()) {}

  LateRanks late_;
  comm::Communicator* ranks_;
  std::vector<double> seconds_;  // by rank
  WorkWindow mine_;
};

}  // namespace lockstep::train
