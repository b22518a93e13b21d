#include "train/memory/updater_memory.h"

#include "parallel/global_norm.h"
#include "train/replicas.h"
#include "train/server/worker_side.h"

namespace lockstep::train {
namespace {

UpdaterNeeds needs_of(const EngineConfig& config, const RankPart& part) {
  const bool lead = layout::Mesh(config.plan).rank(part.at) == 0;
  return config.servers ? worker_needs(config.servers->mode, lead) : replicas_needs(config.plan);
}

}  // namespace

void UpdaterMemory::declare(const UpdaterArenas& arenas, const EngineConfig& config, const RankPart& part) {
  const UpdaterNeeds needs = needs_of(config, part);
  gradients.declare({arenas.gradients, arenas.activations, arenas.workspace}, part.units,
                    gradient_work(config, part, needs.ranks));
  slots.names = saved_slots.names = make_optimizer(config.optimizer)->slots();
  slots.type = saved_slots.type = config.slot_type();
  if (needs.slots) slots.declare(arenas.optimizer, part.units, part.cut);
  if (needs.saved_slots) saved_slots.declare(arenas.optimizer, part.units);
  if (needs.norm) parallel::GlobalNorm::declare(arenas.workspace, squares, part.units.size(), 1, needs.ranks);
}

}  // namespace lockstep::train
