#pragma once

// Training on parameter servers, a worker's side. The servers reduce its gradients with those of the others and update the
// weights. Or every worker updates weights by itself, and the servers average them.

#include <memory>

#include "parallel/server/worker.h"
#include "train/updater.h"

namespace lockstep::train {

/// A worker sums nothing with others. The first one, `lead`, has memory for the optimizer's slots that a checkpoint has.
UpdaterNeeds worker_needs(ServerMode mode, bool lead);
/// The updater of a worker of the kind that parts.config.servers says; `world` has the servers, too, and outlives it.
std::unique_ptr<Updater> make_worker_updater(const UpdaterParts& parts, comm::Communicator& world);

}  // namespace lockstep::train
