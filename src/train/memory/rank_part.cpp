#include "train/memory/rank_part.h"

#include <algorithm>

#include "arch/shard_rules.h"
#include "parallel/context/split_positions.h"

namespace lockstep::train {
namespace {

void check_placements(const EngineConfig& config) {
  const layout::ParallelPlan& plan = config.plan;
  ensure(plan.gradients.tier == layout::Tier::device, "gradients lie where the optimizer's state does, or on their device");
  ensure(!config.servers || (plan.optimizer.tier == layout::Tier::device && plan.parameters.tier == layout::Tier::device),
         "parameter servers and their workers keep state in their memory");
  const auto cut_like_optimizer = [&](layout::CutOver cut) { return cut == layout::CutOver::none || cut == plan.optimizer.cut; };
  ensure(cut_like_optimizer(plan.parameters.cut) && cut_like_optimizer(plan.gradients.cut),
         "what is cut is cut over the same ranks, the optimizer's state first");
  ensure(!plan.canonical || !config.servers, "sums by ranges are of replicas");
  ensure(!config.model.adapter.used() || (!plan.canonical && !config.servers && !plan.tiles.cut()),
         "adapters are trained by replicas, beside whole matrices, in the usual sums");
}

/// Rows of a micro-batch on both sides of the boundaries, of the positions that the rank has of its samples. With sequence
/// parallelism tensor ranks divide them outside.
model::Rows rows_of(const EngineConfig& config, const RankPart& part) {
  const layout::ParallelPlan& plan = config.plan;
  const std::int64_t inside = parallel::split_positions(config.positions, part.at.cp, plan.cp).count();
  const std::int64_t outside = plan.sequence ? layout::part_of(inside, part.at.tp, plan.tp).count : inside;
  return {.inside = config.samples * inside,
          .outside = config.samples * outside,
          .judged = config.samples * (plan.canonical ? config.positions : inside),
          .kind = plan.tp == 1     ? parallel::BoundaryKind::local
                  : !plan.sequence ? parallel::BoundaryKind::summing
                                   : parallel::BoundaryKind::splitting};
}

}  // namespace

RankPart rank_part(const EngineConfig& config, const layout::Coordinates& at) {
  const layout::ParallelPlan& plan = config.plan;
  check_placements(config);
  const layout::TensorRank tensor{.rank = at.tp, .ranks = plan.tp};
  RankPart part{.at = at,
                .chunks = layout::chunks_of(plan, at.pp, config.model.layers),
                .actions = std::move(layout::actions_of(plan)[static_cast<std::size_t>(at.pp)]),
                .dims = arch::sharded_dims(config.model, tensor),
                .cut = layout::state_cut(plan, at, plan.optimizer.cut),
                .stages = layout::stage_map(plan),
                .map = arch::unit_map(config.model),
                .units = {}};
  part.units = arch::units_of(arch::unit_table(config.model, config.decay), part.map, part.chunks, tensor);
  part.embedding = part.chunks.front().embedding;
  part.head = part.chunks.back().head;
  return part;
}

arch::PartMap lease_parts(const EngineConfig& config, const RankPart& part) {
  const arch::LeaseRule rule = arch::lease_rule(config.plan, config.weights.type);
  return arch::parts_of(arch::part_map(config.model, part.units, rule), part.chunks);
}

model::ModelShape model_shape(const EngineConfig& config, const RankPart& part, parallel::ContextAttention& attention,
                              const model::Sums& sums) {
  return {.rows = rows_of(config, part),
          .chunks = part.chunks,
          .lives = layout::lives_of(part.actions, part.chunks, config.plan.microbatches),
          .attention = &attention,
          .recompute = config.plan.recompute,
          .judgers = sums.all_judgers,
          .kept = config.plan.activations,
          .tile_sums = arch::tile_sums(lease_parts(config, part), config.weights.type)};
}

parallel::GradientWork gradient_work(const EngineConfig& config, const RankPart& part, int ranks) {
  const layout::ParallelPlan& plan = config.plan;
  const bool at_once = std::ranges::none_of(
      part.actions, [](const layout::Action& action) { return action.kind == layout::Action::Kind::input_backward; });
  parallel::GradientWork work{.microbatches = plan.microbatches,
                              .reduce = plan.reduce,
                              .tokens = config.samples * config.positions * plan.microbatches,
                              .open_microbatches = layout::open_microbatches(part.actions, part.chunks, plan.microbatches),
                              .ranks = ranks,
                              .cut = part.cut,
                              .cut_gradients = plan.gradients.cut != layout::CutOver::none,
                              .units_in_turn = at_once,
                              .order = arch::backward_order(part.map, part.chunks),
                              .bucket_bytes = config.gradients.bucket_bytes,
                              .canonical = plan.canonical};
  if (part.map.trains_tied() && (part.embedding || part.head)) {
    using parallel::TiedSide;
    work.tied = {.unit = part.map.tied,
                 .shape = arch::token_table(part.units, part.map).shape,
                 .side = !part.head        ? TiedSide::embedding
                         : !part.embedding ? TiedSide::head
                                           : TiedSide::both};
  }
  return work;
}

// Counts by which ops, leases and exchanges of a step grow; a trace of more says how many spans it lacks.
std::int64_t traced_spans(const EngineConfig& config, const RankPart& part) {
  constexpr std::int64_t most = std::int64_t{1} << 18;
  constexpr std::int64_t block_pass = 96, context_rank = 32, tile = 64, unit_update = 64, range_update = 16;
  const layout::ParallelPlan& plan = config.plan;
  std::int64_t blocks = 0, elements = 0;
  for (const layout::Chunk& chunk : part.chunks) blocks += chunk.blocks.count + 2;  // embedding and head, or what comes and goes
  for (const layout::Unit& unit : part.units) elements += part.cut.held(unit).count;
  const std::int64_t tiles = plan.tiles.in * plan.tiles.out;
  const std::int64_t pass = block_pass + context_rank * (plan.cp - 1) + tile * (tiles - 1);
  const std::int64_t step = plan.microbatches * blocks * pass + std::ssize(part.units) * unit_update +
                            range_update * (elements / config.offload.range());
  return std::min(most, config.traced_steps * step);
}

}  // namespace lockstep::train
