#include "layout/mesh.h"

#include <array>

namespace lockstep::layout {

std::string_view name_of(GroupRole role) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(GroupRole::count)> names{
      "all", "tensor", "context", "data", "pipeline", "replicas", "model", "host", "hosts"};
  return names.at(static_cast<std::size_t>(role));
}

Coordinates Mesh::coordinates(int rank) const {
  ensure(rank >= 0 && rank < ranks(), "a rank is one of the plan's");
  Coordinates at;
  at.tp = rank % plan_.tp;
  rank /= plan_.tp;
  at.cp = rank % plan_.cp;
  rank /= plan_.cp;
  at.dp = rank % plan_.dp;
  at.pp = rank / plan_.dp;
  return at;
}

int Mesh::rank(const Coordinates& at) const {
  const bool inside = at.dp >= 0 && at.dp < plan_.dp && at.tp >= 0 && at.tp < plan_.tp && at.cp >= 0 && at.cp < plan_.cp &&
                      at.pp >= 0 && at.pp < plan_.pp;
  ensure(inside, "coordinates lie in the mesh");
  return ((at.pp * plan_.dp + at.dp) * plan_.cp + at.cp) * plan_.tp + at.tp;
}

bool Mesh::together(GroupRole role, int rank, int other) const {
  const Coordinates a = coordinates(rank), b = coordinates(other);
  const bool dp = a.dp == b.dp, tp = a.tp == b.tp, cp = a.cp == b.cp, pp = a.pp == b.pp;
  const auto on_host = [&](int r) { return plan_.ranks_per_host == 0 ? r : r % plan_.ranks_per_host; };
  switch (role) {
    case GroupRole::all:
      return true;
    case GroupRole::tensor:
      return dp && cp && pp;
    case GroupRole::context:
      return dp && tp && pp;
    case GroupRole::data:
      return tp && cp && pp;
    case GroupRole::pipeline:
      return dp && tp && cp;
    case GroupRole::replicas:
      return tp && pp;
    case GroupRole::model:
      return dp && cp;
    case GroupRole::host:
      return tp && pp && host(rank) == host(other);
    case GroupRole::hosts:
      return tp && pp && on_host(rank) == on_host(other);
    case GroupRole::count:
      break;
  }
  ensure(false, "a group has a role");
  return false;
}

std::vector<int> Mesh::members(GroupRole role, int rank) const {
  std::vector<int> all;
  for (int other = 0; other < ranks(); ++other) {
    if (together(role, rank, other)) all.push_back(other);
  }
  return all;
}

}  // namespace lockstep::layout
