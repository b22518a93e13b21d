#include "layout/plan_wish.h"

#include <algorithm>

#include "layout/pipeline/schedules.h"

namespace lockstep::layout {
namespace {

std::int64_t chunks_that_follow(std::string_view schedule, std::int64_t pp) {
  const NamedSchedule* named = find_schedule(schedule);
  return named == nullptr ? 1 : usual_chunks(*named, static_cast<int>(pp));
}

OffloadTo asked_for(Tier tier) {
  return tier == Tier::device ? OffloadTo::none : tier == Tier::host ? OffloadTo::cpu : OffloadTo::nvme;
}

}  // namespace

ParallelPlan plan_of(const PlanWish& wish, std::int64_t trainers) {
  const auto as_int = [](std::int64_t number) { return static_cast<int>(number); };
  const ParallelWish& parallel = wish.parallel;
  const MemoryWish& memory = wish.memory;
  ParallelPlan plan;
  plan.tp = as_int(parallel.tp);
  plan.cp = as_int(parallel.cp);
  plan.context = parallel.context;
  plan.sequence = parallel.sequence;
  plan.pp = as_int(parallel.pp);
  plan.schedule = parallel.schedule;
  plan.chunks = as_int(parallel.virtual_stages.value_or(chunks_that_follow(parallel.schedule, parallel.pp)));
  if (parallel.split) plan.split = *parallel.split;
  const std::int64_t of_a_model = parallel.tp * parallel.cp * parallel.pp;
  plan.dp = as_int(parallel.dp.value_or(std::max<std::int64_t>(1, trainers / of_a_model)));
  plan.microbatches = as_int(wish.gas);
  plan.reduce = parallel.reduce;
  plan.recompute = memory.recompute;
  set_zero_level(plan, as_int(memory.zero.value_or(0)), memory.zero_group);
  plan.prefetch = as_int(memory.prefetch);
  plan.tiles = memory.tiles;
  plan.tiles.larger_than = memory.max_tile_bytes;
  plan.reshard_after_forward = memory.reshard_after_forward;
  plan.allow_tp_across_hosts = parallel.allow_tp_across_hosts;
  plan.canonical = wish.canonical;
  const auto somewhere = [](OffloadTo to) { return to == OffloadTo::none ? Tier::device : Tier::disk; };
  plan.parameters.tier = somewhere(memory.offload_params);
  plan.activations = somewhere(memory.offload_activations);
  return plan;
}

void place_offloaded(ParallelPlan& plan, const MemoryWish& memory, bool on_host) {
  const auto tier_of = [&](OffloadTo to) {
    if (to == OffloadTo::nvme) return Tier::disk;
    return to == OffloadTo::cpu && !on_host ? Tier::host : Tier::device;
  };
  plan.optimizer.tier = tier_of(memory.offload_optimizer);
  plan.parameters.tier = tier_of(memory.offload_params);
  plan.activations = tier_of(memory.offload_activations);
}

PlanWish wish_of(const ParallelPlan& plan) {
  PlanWish wish{.gas = plan.microbatches, .canonical = plan.canonical};
  ParallelWish& parallel = wish.parallel;
  parallel.dp = plan.dp;
  parallel.tp = plan.tp;
  parallel.cp = plan.cp;
  parallel.context = plan.context;
  parallel.sequence = plan.sequence;
  parallel.allow_tp_across_hosts = plan.allow_tp_across_hosts;
  parallel.pp = plan.pp;
  parallel.schedule = plan.schedule;
  if (plan.chunks != chunks_that_follow(plan.schedule, plan.pp)) parallel.virtual_stages = plan.chunks;
  if (!plan.split.empty()) parallel.split = plan.split;
  parallel.reduce = plan.reduce;
  if (plan.ranks_per_host != plan.ranks()) parallel.ranks_per_host = plan.ranks_per_host;
  MemoryWish& memory = wish.memory;
  memory.recompute = plan.recompute;
  if (const int level = zero_level(plan); level > 0) memory.zero = level;
  if (plan.optimizer.cut == CutOver::host) memory.zero_group = CutOver::host;
  memory.prefetch = plan.prefetch;
  memory.reshard_after_forward = plan.reshard_after_forward;
  memory.offload_optimizer = asked_for(plan.optimizer.tier);
  memory.offload_params = asked_for(plan.parameters.tier);
  memory.offload_activations = asked_for(plan.activations);
  memory.tiles = {.in = plan.tiles.in, .out = plan.tiles.out};
  memory.max_tile_bytes = plan.tiles.larger_than;
  return wish;
}

}  // namespace lockstep::layout
