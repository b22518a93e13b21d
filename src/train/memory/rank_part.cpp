#include "train/memory/rank_part.h"

#include <algorithm>

#include "arch/shard_rules.h"
#include "layout/pipeline/schedules.h"

namespace lockstep::train {
namespace {

void check_placements(const layout::ParallelPlan& plan) {
  for (const layout::Placement& placement : {plan.parameters, plan.gradients, plan.optimizer})
    ensure(placement.tier == layout::Tier::device, "weights, gradients and the optimizer's state lie on their device");
  const auto cut_like_optimizer = [&](layout::CutOver cut) { return cut == layout::CutOver::none || cut == plan.optimizer.cut; };
  ensure(cut_like_optimizer(plan.parameters.cut) && cut_like_optimizer(plan.gradients.cut),
         "what is cut is cut over the same ranks, the optimizer's state first");
  ensure(plan.chunks == 1, "a pipeline rank has one chunk");
  ensure(plan.tiles == layout::Tiles{}, "layers are leased whole");
}

/// The units of the model as this rank has them.
std::vector<layout::Unit> held_units(const EngineConfig& config, const RankPart& part) {
  std::vector<bool> used(static_cast<std::size_t>(part.map.count));
  const auto use = [&](UnitIndex unit) { used[static_cast<std::size_t>(unit.value)] = true; };
  for (const layout::Chunk& chunk : part.chunks) {
    if (chunk.embedding) std::ranges::for_each(part.map.embedding_reads, use);
    for (std::int64_t b = chunk.blocks.first; b < chunk.blocks.end(); ++b) use(part.map.blocks[static_cast<std::size_t>(b)]);
    if (chunk.head) std::ranges::for_each(part.map.head_reads, use);
  }
  std::vector<arch::UnitSpec> table = arch::unit_table(config.model, config.decay);
  for (std::size_t u = 0; u < table.size(); ++u) {
    if (!used[u]) table[u].parameters.clear();
  }
  return arch::units_of(table, {.rank = part.at.tp, .ranks = config.plan.tp});
}

/// Rows of a micro-batch on both sides of the boundaries. With sequence parallelism tensor ranks divide the positions outside.
model::Rows rows_of(const EngineConfig& config, const RankPart& part) {
  const layout::ParallelPlan& plan = config.plan;
  const std::int64_t outside = plan.sequence ? layout::part_of(config.positions, part.at.tp, plan.tp).count : config.positions;
  return {.inside = config.samples * config.positions,
          .outside = config.samples * outside,
          .kind = plan.tp == 1     ? parallel::BoundaryKind::local
                  : !plan.sequence ? parallel::BoundaryKind::summing
                                   : parallel::BoundaryKind::splitting};
}

}  // namespace

RankPart rank_part(const EngineConfig& config, const layout::Coordinates& at) {
  const layout::ParallelPlan& plan = config.plan;
  check_placements(plan);
  const layout::NamedSchedule* schedule = layout::find_schedule(plan.schedule);
  ensure(schedule != nullptr, "the plan's schedule is one of the table");
  const layout::PipelineShape pipeline{.ranks = plan.pp, .chunks = plan.chunks, .microbatches = plan.microbatches};
  RankPart part{.at = at,
                .chunks = layout::chunks_of(stage_map(*schedule, pipeline), at.pp, config.model.layers),
                .actions = std::move(actions_of(*schedule, pipeline)[static_cast<std::size_t>(at.pp)]),
                .dims = arch::sharded_dims(config.model, {.rank = at.tp, .ranks = plan.tp}),
                .cut = layout::state_cut(plan, at, plan.optimizer.cut),
                .map = arch::unit_map(config.model),
                .units = {}};
  part.units = held_units(config, part);
  part.embedding = part.chunks.front().embedding;
  part.head = part.chunks.back().head;
  return part;
}

model::ModelShape model_shape(const EngineConfig& config, const RankPart& part, parallel::ContextAttention& attention) {
  return {.rows = rows_of(config, part),
          .chunks = part.chunks,
          .lives = layout::lives_of(part.actions, part.chunks, config.plan.microbatches),
          .attention = &attention,
          .recompute = config.plan.recompute};
}

parallel::GradientWork gradient_work(const EngineConfig& config, const RankPart& part, int ranks) {
  const layout::ParallelPlan& plan = config.plan;
  const bool tied = config.model.tied && part.embedding;
  return {.microbatches = plan.microbatches,
          .reduce = plan.reduce,
          .tokens = config.samples * config.positions * plan.microbatches,
          .open_microbatches = layout::open_microbatches(part.actions, part.chunks, plan.microbatches),
          .ranks = ranks,
          .cut = part.cut,
          .cut_gradients = plan.gradients.cut != layout::CutOver::none,
          .order = arch::backward_order(part.map),
          .bucket_bytes = config.gradients.bucket_bytes,
          .tied = tied ? arch::token_table(part.units, part.map).shape : Shape{}};
}

}  // namespace lockstep::train
