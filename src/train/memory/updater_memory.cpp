#include "train/memory/updater_memory.h"

#include <algorithm>

#include "arch/shard_rules.h"
#include "train/replicas.h"
#include "train/server/worker_side.h"

namespace lockstep::train {
namespace {

UpdaterNeeds needs_of(const EngineConfig& config, const RankPart& part) {
  const bool lead = layout::Mesh(config.plan).rank(part.at) == 0;
  return config.servers ? worker_needs(config.servers->mode, lead) : replicas_needs(config.plan);
}

layout::MatrixPlan hidden_matrices(const EngineConfig& config, const RankPart& part) {
  const std::vector<arch::UnitSpec> table = arch::unit_table(config.model, config.decay);
  std::vector<std::vector<layout::Unit>> units;
  for (int rank = 0; rank < config.plan.tp; ++rank)
    units.push_back(arch::units_of(table, part.map, part.chunks, {.rank = rank, .ranks = config.plan.tp}));
  const layout::Mesh mesh(config.plan);
  return layout::matrix_plan(mesh, mesh.rank(part.at), units, config.plan.optimizer.cut, arch::is_hidden_matrix);
}

/// Whether each micro-batch's gradient is complete on the ranks that read it before the next one's is begun: alike on all ranks.
bool measures_noise(const EngineConfig& config) {
  const layout::ParallelPlan& plan = config.plan;
  if (plan.dp * plan.microbatches == 1 || plan.cp > 1 || config.servers || plan.optimizer.tier != layout::Tier::device)
    return false;
  if (plan.tp > 1 && !plan.canonical && plan.microbatches > 1) return false;  // which add what they share once a step
  const std::vector<std::vector<layout::Action>> actions = layout::actions_of(plan);
  for (int rank = 0; rank < plan.pp; ++rank) {
    const std::vector<layout::Chunk> chunks = layout::chunks_of(plan, rank, config.model.layers);
    if (layout::open_microbatches(actions[static_cast<std::size_t>(rank)], chunks, plan.microbatches) > 1) return false;
  }
  return true;
}

void declare_whole(Arena& workspace, WholeTensorMemory& memory, const EngineConfig& config, const RankPart& part) {
  const WholeTensorNeed needed = make_optimizer(config.optimizer)->whole_tensors();
  if (needed == WholeTensorNeed::norms)
    memory.norms.declare(workspace, arch::units_of(arch::unit_table(config.model, config.decay)));
  if (needed != WholeTensorNeed::matrices) return;
  memory.matrices.declare(workspace, hidden_matrices(config, part));
  std::int64_t most = 0, least = 0;
  for (const int m : memory.matrices.plan.owned) {
    const layout::WholeMatrix& matrix = memory.matrices.plan.matrices[static_cast<std::size_t>(m)];
    most = std::max(most, matrix.elements());
    least = std::max(least, std::min(matrix.rows, matrix.columns));
  }
  memory.products.declare(workspace, most, least);
}

}  // namespace

void UpdaterMemory::declare(const UpdaterArenas& arenas, const EngineConfig& config, const RankPart& part,
                            const parallel::ParameterMemory& weights, parallel::Spill& spill) {
  using parallel::OffloadColumn;
  const UpdaterNeeds needs = needs_of(config, part);
  const parallel::GradientArenas gradient_arenas{arenas.gradients, arenas.activations, arenas.workspace};
  const parallel::GradientWork work = gradient_work(config, part, needs.ranks);
  const layout::Tier tier = config.plan.optimizer.tier;
  std::vector<OffloadColumn> columns;
  if (weights.spill != nullptr) columns.push_back({OffloadColumn::Kind::weights, 0, config.weights.type, weights.numbers});
  if (tier != layout::Tier::device && parallel::offload_gradients(work)) {
    offloaded_gradients.declare(gradient_arenas, part.units, work, part.map,
                                {.tier = tier, .what = "gradients", .of = {}, .range = config.offload.range()}, spill);
    columns.push_back({OffloadColumn::Kind::gradients, 0, DType::f32, offloaded_gradients.helds});
  } else {
    gradients.declare(gradient_arenas, part.units, work);
  }
  // In canonical mode layers add up what tensor ranks have of sums.
  if (config.plan.canonical) {
    tree.declare(arenas.gradients, part.units, work);
  } else {
    partial.declare(arenas.workspace, part.units, {.rank = part.at.tp, .ranks = config.plan.tp}, config.plan.sequence);
  }
  slots.names = saved_slots.names = make_optimizer(config.optimizer)->slots();
  slots.type = saved_slots.type = config.slot_type();
  if (tier == layout::Tier::device && needs.slots) slots.declare(arenas.optimizer, part.units, part.cut);
  const parallel::OffloadMemory::Needs offloaded{.tier = tier,
                                                 .masters = config.weights.owned() != config.weights.type,
                                                 .slot_type = slots.type,
                                                 .slots = static_cast<int>(slots.names.size())};
  offload.declare(arenas.buffers, part.units, part.cut, offloaded, std::move(columns), config.offload, spill);
  if (weights.halves()) {
    std::int64_t most = 1;
    for (const layout::Unit& unit : part.units) {
      if (unit.trained) most = std::max(most, part.cut.held(unit).count);
    }
    arenas.optimizer.declare(whole_masters, "whole masters", Shape{std::min(most, parallel::HalvedState::range_elements)},
                             DType::f32);
  }
  if (needs.saved_slots) saved_slots.declare(arenas.optimizer, part.units);
  if (needs.norm_ranks > 0) norm.declare(arenas.workspace, part.units, 1, needs.norm_ranks, config.plan.canonical);
  if (measures_noise(config)) noise.declare(arenas.workspace, part.units);
  const Arena::Mark start = arenas.workspace.mark();
  declare_whole(arenas.workspace, whole, config, part);
  arenas.workspace.rewind(start);  // passes are over
}

}  // namespace lockstep::train
