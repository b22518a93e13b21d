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

bool supports(const System& system, const layout::ParallelPlan& plan) {
  if (is_own(system)) return true;
  struct Row {
    std::string_view name;
    bool divides, pipelines, offloads, selects;
    int least_zero, most_zero;
  };
  static constexpr std::array<Row, 4> rows{{{"megatron", true, true, false, true, 0, 1},
                                            {"fsdp", false, false, false, false, 0, 3},
                                            {"torchtitan", true, true, false, true, 3, 3},
                                            {"deepspeed", false, false, true, false, 0, 3}}};
  using layout::Tier;
  const Row& row = *std::ranges::find(rows, system.name, &Row::name);
  const int zero = layout::zero_level(plan);
  const bool device = plan.optimizer.tier == Tier::device && plan.parameters.tier == Tier::device;
  const bool divided = plan.tp > 1 || plan.cp > 1;
  const auto& [kind, every] = plan.recompute;
  return (row.divides || !divided) && (plan.tp == 1 || plan.sequence) && (plan.pp == 1 || row.pipelines) &&
         (row.offloads || device) && plan.activations == Tier::device && !plan.tiles.cut() && every == 1 &&
         (row.selects || kind != layout::Recompute::Kind::selective) && (plan.dp * plan.cp == 1 || zero >= row.least_zero) &&
         zero <= row.most_zero && (plan.cp == 1 || plan.context == layout::ContextMethod::allgather) &&
         (plan.schedule == "1f1b" || plan.schedule == "interleaved");
}

}  // namespace lockstep::planner
