#pragma once

// Which rank has which part of a plan: rank = ((p dp + d) cp + c) tp + t. Tensor parallelism varies fastest, so that its ranks
// lie inside a host. Then come context, data and the pipeline's stages.

#include <string_view>
#include <vector>

#include "layout/parallel_plan.h"

namespace lockstep::layout {

/// A rank's place: its number along each axis.
struct Coordinates {
  int dp = 0, tp = 0, cp = 0, pp = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// A group of ranks that do something together. Its ranks differ from each other only along the axes that the group is named for.
enum class GroupRole : std::uint8_t {
  all,       ///< every rank that trains
  tensor,    ///< tp: split one layer
  context,   ///< cp: split one sequence
  data,      ///< dp: different samples
  pipeline,  ///< pp: different layers
  replicas,  ///< dp x cp: hold the same parameters, and add up their gradients
  model,     ///< tp x pp: hold all parameters, each once but for those that several need
  host,      ///< the replicas on one host
  hosts,     ///< the replicas with the same number on each host
  count
};
std::string_view name_of(GroupRole role);

class Mesh {
 public:
  /// `plan`: one that check() found nothing wrong with.
  explicit Mesh(const ParallelPlan& plan) : plan_(plan) {}

  const ParallelPlan& plan() const { return plan_; }
  int ranks() const { return plan_.ranks(); }
  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& at) const;
  /// The host of a rank, counted from 0.
  int host(int rank) const { return plan_.ranks_per_host == 0 ? 0 : rank / plan_.ranks_per_host; }
  /// The members of the group of `role` that `rank` is in. They are in the order of their ranks.
  std::vector<int> members(GroupRole role, int rank) const;
  /// The same number for all members of a group and for no others: the least of their ranks.
  int colour(GroupRole role, int rank) const { return members(role, rank).front(); }

 private:
  bool together(GroupRole role, int rank, int other) const;
  ParallelPlan plan_;
};

}  // namespace lockstep::layout
