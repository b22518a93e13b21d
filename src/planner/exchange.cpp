#include "planner/exchange.h"

#include <algorithm>

namespace lockstep::planner {
namespace {

double rate(bool inside, const Machine& machine) {
  return machine.link_share * (inside ? machine.inside_rate : machine.between_rate);
}

double latency(bool inside, const Machine& machine) { return inside ? machine.inside_latency : machine.between_latency; }

/// Ranks whose places go up to `extent` from the first one's.
Group group_of(int ranks, std::int64_t extent, const Machine& machine) {
  const double near = static_cast<double>(machine.devices) * ranks / static_cast<double>(extent);
  return {ranks, extent <= machine.devices, std::max(1.0, near)};
}

double collective_rate(const Group& group, const Machine& machine) {
  const double one = rate(group.inside, machine);
  return group.inside || !machine.joins_links ? one : std::min(rate(true, machine), group.near * one);
}

}  // namespace

Group tensor_group(const layout::ParallelPlan& plan, const Machine& machine) { return group_of(plan.tp, plan.tp, machine); }

Group context_group(const layout::ParallelPlan& plan, const Machine& machine) {
  return group_of(plan.cp, std::int64_t{plan.tp} * plan.cp, machine);
}

Group replica_group(const layout::ParallelPlan& plan, const Machine& machine) {
  return group_of(plan.dp * plan.cp, std::int64_t{plan.tp} * plan.cp * plan.dp, machine);
}

Group state_group(const layout::ParallelPlan& plan, layout::CutOver over, const Machine& machine) {
  if (over == layout::CutOver::none) return {};
  const Group replicas = replica_group(plan, machine);
  if (over == layout::CutOver::all) return replicas;
  return {std::clamp(plan.ranks_per_host / plan.tp, 1, replicas.ranks), true};
}

Group pipeline_group(const layout::ParallelPlan& plan, const Machine& machine) {
  return group_of(plan.pp, std::int64_t{plan.ranks()}, machine);
}

double gather_seconds(double bytes, const Group& group, const Machine& machine) {
  if (group.ranks == 1) return 0;
  return latency(group.inside, machine) + bytes * (group.ranks - 1) / group.ranks / collective_rate(group, machine);
}

double sum_seconds(double bytes, const Group& group, const Machine& machine) { return 2 * gather_seconds(bytes, group, machine); }

double send_seconds(double bytes, bool inside, const Machine& machine) {
  return latency(inside, machine) + bytes / rate(inside, machine);
}

}  // namespace lockstep::planner
