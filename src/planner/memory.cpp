#include "planner/memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "layout/pipeline/schedules.h"
#include "planner/activations.h"
#include "planner/stage_shares.h"
#include "train/memory/rank_memory.h"

namespace lockstep::planner {
namespace {

bool is_f32(const Work& work) { return work.system.element_bytes == 4; }

/// Micro-batches of which a rank of the pipeline keeps activations, in units of its whole share of the model.
double kept_microbatches(const layout::ParallelPlan& plan) {
  const double all = plan.microbatches, ranks = plan.pp;
  if (plan.schedule == "gpipe" || plan.schedule == "breadth-first") return all;
  if (plan.schedule == "interleaved") return std::min(all, ranks + (ranks - 1) / plan.chunks);
  return std::min(all, ranks);
}

/// Of the first rank of the pipeline, which has the table of tokens beside its blocks.
struct FirstRank {
  double blocks, parameters;
};
FirstRank first_rank(const Work& work, const layout::ParallelPlan& plan) {
  const auto layers = static_cast<double>(work.model.layers);
  const double blocks = stage_shares(plan, work.model.layers).first;
  const double table = static_cast<double>(work.model.vocabulary) * static_cast<double>(work.model.width);
  const double tables = work.model.tied ? table : 2 * table;
  return {blocks, ((work.parameters - tables) / layers * blocks + (plan.pp == 1 ? tables : table)) / plan.tp};
}

double activation_bytes(const Work& work, const Candidate& candidate) {
  using Kind = layout::Recompute::Kind;
  const layout::ParallelPlan& plan = candidate.plan;
  const layout::Recompute& recompute = plan.recompute;
  const auto of_block = [&](Kind kind) {
    return kept_bytes(work.model, {candidate.samples, work.positions}, plan, kind, work.system.element_bytes);
  };
  const double each = of_block(recompute.kind), blocks = first_rank(work, plan).blocks;
  // Of blocks that are run again together, what is made again; the first one's input is there.
  const double together = recompute.kind == Kind::full ? std::min<double>(recompute.every, blocks / plan.chunks) : 1;
  const double again = recompute.kind == Kind::none ? 0 : together * of_block(Kind::none) - each;
  constexpr double places = 3;
  const double kept = plan.activations == layout::Tier::device
                          ? each * std::ceil(blocks / recompute.every) * kept_microbatches(plan)
                          : places * each;
  return kept + again;
}

double state_bytes(const Work& work, const layout::ParallelPlan& plan) {
  const double parameters = first_rank(work, plan).parameters;
  const auto part = [&](const layout::Placement& placed, double bytes) {
    if (placed.tier != layout::Tier::device) return 0.0;
    return bytes * parameters / state_group(plan, placed.cut, work.machine).ranks;
  };
  layout::Placement gradients = plan.gradients;
  if (plan.microbatches > 1) gradients.cut = layout::CutOver::none;  // their sum is reduced once
  gradients.tier = plan.optimizer.tier;
  const bool halves = plan.parameters.tier == layout::Tier::device && plan.optimizer.tier == layout::Tier::device;
  const double moments = 8, masters = is_f32(work) ? 0 : halves ? 2 : 4;
  return part(plan.parameters, work.system.element_bytes) + part(gradients, 4) + part(plan.optimizer, moments + masters);
}

}  // namespace

DeclaredMemory placed(Ledger ledger, std::int64_t elsewhere) {
  DeclaredMemory memory{.ledger = std::move(ledger), .disk = elsewhere};
  for (const LedgerEntry& entry : memory.ledger.entries()) {
    if (entry.owner != "offloaded state") continue;
    memory.host += entry.taken;
    memory.disk -= entry.taken;
  }
  return memory;
}

DeclaredMemory declared_memory(const Work& work, const Candidate& candidate, const layout::Coordinates& at) {
  const train::EngineConfig config = train::assemble({.model = work.model,
                                                      .weights = {.type = is_f32(work) ? DType::f32 : DType::bf16},
                                                      .samples = candidate.samples,
                                                      .positions = work.positions},
                                                     {.plan = candidate.plan});
  const train::RankMemory memory(config, at);
  return placed(memory.ledger(0), memory.spill.bytes());
}

DeviceMemory device_memory(const Work& work, const Candidate& candidate) {
  DeviceMemory most;
  for (const int stage : {0, candidate.plan.pp - 1}) {
    const DeclaredMemory declared = declared_memory(work, candidate, {.pp = stage});
    most.bytes = std::max(most.bytes, declared.device());
    most.host_bytes = std::max(most.host_bytes, declared.host);
    most.disk_bytes = std::max(most.disk_bytes, declared.disk);
    if (candidate.plan.pp == 1) break;
  }
  return most;
}

double estimated_bytes(const Work& work, const Candidate& candidate) {
  return state_bytes(work, candidate.plan) + activation_bytes(work, candidate);
}

}  // namespace lockstep::planner
