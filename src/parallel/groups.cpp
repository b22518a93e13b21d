#include "parallel/groups.h"

#include <algorithm>

namespace lockstep::parallel {

using layout::CutOver;
using layout::GroupRole;

namespace {

bool cuts_over_hosts(const layout::ParallelPlan& plan) {
  return plan.parameters.cut == CutOver::host || plan.gradients.cut == CutOver::host || plan.optimizer.cut == CutOver::host;
}

/// Ranks of the largest group of a role, the same for every rank of the mesh.
int largest(GroupRole role, const layout::Mesh& mesh) {
  std::size_t most = 0;
  for (int rank = 0; rank < mesh.ranks(); ++rank) most = std::max(most, mesh.members(role, rank).size());
  return static_cast<int>(most);
}

}  // namespace

Groups::Groups(comm::Communicator& world, const layout::Mesh& mesh)
    : mesh_(mesh), at_(mesh.coordinates(world.rank())), self_(comm::make_self()) {
  ensure(world.size() == mesh.ranks(), "the world has the mesh's ranks");
  for (std::size_t i = 0; i < roles; ++i) {
    const auto role = static_cast<GroupRole>(i);
    const bool of_hosts = role == GroupRole::host || role == GroupRole::hosts;
    if (of_hosts && !cuts_over_hosts(mesh.plan())) continue;
    const int ranks = largest(role, mesh);
    if (ranks == mesh.ranks()) {
      groups_[i] = &world;
      continue;
    }
    owned_[i] = ranks == 1 ? comm::make_self() : world.split(mesh.colour(role, world.rank()), world.rank());
    groups_[i] = owned_[i].get();
  }
}

comm::Communicator& Groups::parts(CutOver cut) const {
  if (cut == CutOver::none) return *self_;
  return of(cut == CutOver::host ? GroupRole::host : GroupRole::replicas);
}

comm::Communicator& Groups::alike(CutOver cut) const {
  if (cut == CutOver::all) return *self_;
  return of(cut == CutOver::host ? GroupRole::hosts : GroupRole::replicas);
}

comm::Communicator& Groups::of(GroupRole role) const {
  comm::Communicator* group = groups_[static_cast<std::size_t>(role)];
  ensure(group != nullptr, "groups of hosts are there where a plan cuts over them");
  return *group;
}

}  // namespace lockstep::parallel
