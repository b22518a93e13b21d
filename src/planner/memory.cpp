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

/// What the first rank of the pipeline holds: its blocks, and parameters of these and of the table of tokens.
struct FirstRank {
  double blocks, parameters;
};
FirstRank first_rank(const Work& work, const layout::ParallelPlan& plan) {
  const auto layers = static_cast<double>(work.model.layers);
  const double blocks = first_rank_blocks(plan, work.model.layers);
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
  // Blocks that are run again together make again all that they keep, but for the first one's input, which is there.
  const double together = recompute.kind == Kind::full ? std::min<double>(recompute.every, blocks / plan.chunks) : 1;
  const double again = recompute.kind == Kind::none ? 0 : together * of_block(Kind::none) - each;
  constexpr double places = 3;
  const double kept = plan.activations == layout::Tier::device
                          ? each * std::ceil(blocks / recompute.every) * kept_microbatches(plan)
                          : places * each;
  return kept + again;
}

/// Where gradients are between micro-batches, and by whom they are shared out: whole until the last one where a step reduces them
/// once.
layout::Placement kept_gradients(const layout::ParallelPlan& plan) {
  layout::Placement gradients = plan.gradients;
  if (plan.microbatches > 1 && plan.reduce == layout::ReduceEvery::step) gradients.cut = layout::CutOver::none;
  gradients.tier = plan.optimizer.tier;
  return gradients;
}

double state_bytes(const Work& work, const layout::ParallelPlan& plan) {
  const double parameters = first_rank(work, plan).parameters;
  const auto part = [&](const layout::Placement& placed, double bytes) {
    if (placed.tier != layout::Tier::device) return 0.0;
    return bytes * parameters / state_group(plan, placed.cut, work.machine).ranks;
  };
  const bool halves = plan.parameters.tier == layout::Tier::device && plan.optimizer.tier == layout::Tier::device;
  const double moments = 8, masters = is_f32(work) ? 0 : halves ? 2 : 4;
  return part(plan.parameters, work.system.element_bytes) + part(kept_gradients(plan), 4) +
         part(plan.optimizer, moments + masters);
}

/// Bytes that a system other than this program keeps of a block.
double kept_of_system(const Work& work, const Candidate& candidate, layout::Recompute::Kind kind) {
  const layout::ParallelPlan& plan = candidate.plan;
  const arch::ModelConfig& model = work.model;
  const double rows = static_cast<double>(candidate.samples * work.positions) / plan.cp, ranks = plan.tp;
  const double width = static_cast<double>(model.width) / (plan.sequence ? ranks : 1);
  const double element = work.system.element_bytes;
  if (kind == layout::Recompute::Kind::full) return element * rows * width;
  const bool selective = kind == layout::Recompute::Kind::selective;
  const System::Kept& kept = selective ? work.system.kept_selective : work.system.kept;
  const auto heads = static_cast<double>(model.heads), size = static_cast<double>(model.head_size),
             ffn = static_cast<double>((model.gated ? 2 : 1) * model.ffn_width);
  const double inside = kept.queries * heads * size + kept.keys * static_cast<double>(model.kv_heads) * size + kept.ffn * ffn;
  // Scores, softmax and dropout's mask of attention that is not in tiles (Korthikanti et al. 2022).
  const double scores = work.system.tiled_attention || selective ? 0 : 5 * rows * heads * static_cast<double>(work.positions);
  return element * rows * (kept.outside * width + inside / ranks) + scores / ranks;
}

/// Memory of another system than this program: state, what it gathers, what blocks keep, and the loss or the block that is run
/// again.
double system_bytes(const Work& work, const Candidate& candidate) {
  using Kind = layout::Recompute::Kind;
  const layout::ParallelPlan& plan = candidate.plan;
  const System& system = work.system;
  const double parameters = first_rank(work, plan).parameters;
  const auto share = [&](const layout::Placement& placed) {
    return placed.tier == layout::Tier::device ? parameters / state_group(plan, placed.cut, work.machine).ranks : 0;
  };
  const layout::Placement gradients = kept_gradients(plan);
  const bool cut = plan.parameters.cut != layout::CutOver::none;
  double bytes = system.master_bytes * share(plan.optimizer) + 4 * share(gradients);
  if (!cut || !system.master_is_weight) bytes += system.element_bytes * share(plan.parameters);
  // Two of the widest units as they are gathered, and the gradient of one as it is summed.
  const double widest = static_cast<double>(work.model.vocabulary * work.model.width) / plan.tp;
  if (gradients.cut != layout::CutOver::none) bytes += (cut ? 2 * system.element_bytes : 0) * widest + 4 * widest;
  const double again = plan.recompute.kind == Kind::none ? 0 : kept_of_system(work, candidate, Kind::none);
  const double rows = static_cast<double>(candidate.samples * work.positions) / plan.cp;
  const double loss = plan.pp == 1 ? system.kept_logit * rows * static_cast<double>(work.model.vocabulary) / plan.tp : 0;
  return bytes + block_bytes(work, candidate) + std::max(again, loss);
}

}  // namespace

double block_bytes(const Work& work, const Candidate& candidate) {
  return kept_of_system(work, candidate, candidate.plan.recompute.kind) * first_rank(work, candidate.plan).blocks *
         kept_microbatches(candidate.plan);
}

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
  if (!is_own(work.system)) return {.bytes = static_cast<std::int64_t>(system_bytes(work, candidate))};
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
  if (!is_own(work.system)) return system_bytes(work, candidate);
  return state_bytes(work, candidate.plan) + activation_bytes(work, candidate);
}

}  // namespace lockstep::planner
