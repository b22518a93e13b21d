#pragma once

// Checks before the first step that the ranks' lists of actions match.

#include <vector>

#include "layout/access_order.h"
#include "parallel/groups.h"
#include "parallel/zero/gradients.h"
#include "train/memory/rank_part.h"

namespace lockstep::train {

/// The lists of a rank's step: actions (in `part`), leases and reductions.
struct RankList {
  const RankPart& part;
  const std::vector<layout::Access>& leases;
  std::vector<parallel::GradientBucket> reductions;
};

/// Throws on every rank, and names the first difference, unless the ranks' lists match. A pipeline's ranks have matching actions,
/// message by message. Ranks with the same layers have the same actions, and replicas also the same leases and reductions.
/// Collective over all of the groups' ranks.
void demand_matching_lists(const RankList& list, const parallel::Groups& groups);

}  // namespace lockstep::train
