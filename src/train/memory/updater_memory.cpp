#include "train/memory/updater_memory.h"

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
  partial.declare(arenas.workspace, part.units, {.rank = part.at.tp, .ranks = config.plan.tp}, config.plan.sequence);
  slots.names = saved_slots.names = make_optimizer(config.optimizer)->slots();
  slots.type = saved_slots.type = config.slot_type();
  const layout::Tier tier = config.plan.optimizer.tier;
  if (tier != layout::Tier::device) {
    const parallel::OffloadMemory::Needs offloaded{.tier = tier,
                                                   .cut = part.cut,
                                                   .masters = config.weights.owned() != config.weights.type,
                                                   .slot_type = slots.type,
                                                   .slots = static_cast<int>(slots.names.size())};
    offload.declare(arenas.buffers, arenas.host, part.units, offloaded, config.offload);
  } else if (needs.slots) {
    slots.declare(arenas.optimizer, part.units, part.cut);
  }
  if (needs.saved_slots) saved_slots.declare(arenas.optimizer, part.units);
  if (needs.norm_ranks > 0) norm.declare(arenas.workspace, part.units, 1, needs.norm_ranks);
}

}  // namespace lockstep::train
