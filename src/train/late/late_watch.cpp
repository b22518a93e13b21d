#include "train/late/late_watch.h"

#include "train/optimizer/optimizer.h"

namespace lockstep::train {
namespace {

/// Ranks of one stage and one part of the positions have the same work, but for an update of whole matrices by their owners.
std::vector<int> kinds_of(const EngineConfig& config, const layout::Mesh& mesh) {
  const bool owners = make_optimizer(config.optimizer)->whole_tensors() == WholeTensorNeed::matrices;
  std::vector<int> kinds(static_cast<std::size_t>(mesh.ranks()));
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const layout::Coordinates at = mesh.coordinates(rank);
    kinds[static_cast<std::size_t>(rank)] = owners ? rank : at.pp * config.plan.cp + at.cp;
  }
  return kinds;
}

}  // namespace

std::optional<LateWatch> LateWatch::of(const EngineConfig& config, const parallel::Groups& groups) {
  if (groups.all().size() == 1 || (config.servers && config.servers->mode == ServerMode::async)) return std::nullopt;
  return LateWatch(kinds_of(config, groups.mesh()), groups.all().host());
}

std::span<const LateChange> LateWatch::meet() {
  if (!mine_.full()) return {};
  double mine = mine_.take();
  ranks_->gather(view(std::span(seconds_), Shape{std::ssize(seconds_)}), view(std::span(&mine, 1), Shape{1}), 0).wait();
  return ranks_->rank() == 0 ? late_.add(seconds_) : std::span<const LateChange>{};
}

}  // namespace lockstep::train
