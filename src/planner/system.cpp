#include "planner/system.h"

#include <algorithm>
#include <array>

namespace lockstep::planner {

std::span<const System> systems() {
  static constexpr std::array<System, 5> all{own_system, megatron, fsdp, torchtitan, deepspeed};
  return all;
}

const System* find_system(std::string_view name) {
  const auto found = std::ranges::find(systems(), name, &System::name);
  return found == systems().end() ? nullptr : &*found;
}

double beside(double transfers, double computing, const System& system) {
  return std::max(0.0, transfers - computing) + system.contention * std::min(transfers, computing);
}

bool supports(const System& system, const layout::ParallelPlan& plan) {
  if (is_own(system)) return true;
  using layout::Tier;
  const System::Layouts& has = system.layouts;
  const int zero = layout::zero_level(plan);
  const bool device = plan.optimizer.tier == Tier::device && plan.parameters.tier == Tier::device;
  const bool divided = plan.tp > 1 || plan.cp > 1;
  const auto& [kind, every] = plan.recompute;
  // DeepSpeed 0.19 has no shards inside nodes any more (MiCS).
  const bool inside_nodes = plan.parameters.cut == layout::CutOver::host;
  return (system.name != deepspeed.name || !inside_nodes) && (has.divides || !divided) && (plan.tp == 1 || plan.sequence) &&
         (plan.pp == 1 || has.pipelines) && (has.offloads || device) && plan.activations == Tier::device && !plan.tiles.cut() &&
         every == 1 && (has.selects || kind != layout::Recompute::Kind::selective) &&
         (plan.dp * plan.cp == 1 || zero >= has.least_zero) && zero <= has.most_zero &&
         (plan.cp == 1 || plan.context == layout::ContextMethod::allgather) &&
         (plan.schedule == "1f1b" || plan.schedule == "interleaved");
}

}  // namespace lockstep::planner
