#pragma once

// The communicators of one rank, by role: what a mesh says of groups, made real. Training, data and evaluation ask for a group by
// what it is for.

#include <array>
#include <memory>

#include "comm/communicator.h"
#include "layout/mesh.h"

namespace lockstep::parallel {

class Groups {
 public:
  /// `world` has the mesh's ranks in their order, and outlives this. A group of all of them is the world itself, one of a single
  /// rank needs no transport. Collective: every rank makes the same groups in the same order.
  Groups(comm::Communicator& world, const layout::Mesh& mesh);
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  const layout::Mesh& mesh() const { return mesh_; }
  const layout::ParallelPlan& plan() const { return mesh_.plan(); }
  /// This rank's place.
  const layout::Coordinates& at() const { return at_; }
  /// Whether this rank speaks for all: rank 0 of the mesh.
  bool lead() const { return all().rank() == 0; }

  comm::Communicator& all() const { return of(layout::GroupRole::all); }
  comm::Communicator& data() const { return of(layout::GroupRole::data); }
  comm::Communicator& tensor() const { return of(layout::GroupRole::tensor); }
  comm::Communicator& pipeline() const { return of(layout::GroupRole::pipeline); }
  comm::Communicator& replicas() const { return of(layout::GroupRole::replicas); }
  comm::Communicator& model() const { return of(layout::GroupRole::model); }
  /// parts(): the ranks that have together all parts of what is cut so. With CutOver::none that is this rank alone. alike(): the
  /// ranks that have the same part as this one.
  comm::Communicator& parts(layout::CutOver cut) const;
  comm::Communicator& alike(layout::CutOver cut) const;
  /// The group of a role. There are groups of a host and across hosts only where the plan cuts something over a host.
  comm::Communicator& of(layout::GroupRole role) const;

 private:
  static constexpr auto roles = static_cast<std::size_t>(layout::GroupRole::count);
  layout::Mesh mesh_;
  layout::Coordinates at_;
  std::array<std::unique_ptr<comm::Communicator>, roles> owned_;
  std::unique_ptr<comm::Communicator> self_;
  std::array<comm::Communicator*, roles> groups_{};
};

}  // namespace lockstep::parallel
