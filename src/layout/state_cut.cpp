#include "layout/state_cut.h"

namespace lockstep::layout {

StateCut state_cut(const ParallelPlan& plan, const Coordinates& at, CutOver over) {
  const int replicas = plan.dp * plan.cp, replica = at.dp * plan.cp + at.cp;
  const Mesh mesh(plan);
  int parts = 1;
  if (over == CutOver::all) parts = replicas;
  if (over == CutOver::host) parts = static_cast<int>(mesh.members(GroupRole::host, mesh.rank(at)).size());
  ensure(replicas % parts == 0, "every host has as many of the ranks that share the model");
  return {.parts = parts, .copies = replicas / parts, .replica = replica};
}

}  // namespace lockstep::layout
