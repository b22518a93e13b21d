#pragma once

// Training on parameter servers, a worker's side: the servers reduce its gradients with those of the others and update the
// weights, or average the weights that every worker has updated by itself.

#include <memory>

#include "parallel/server/worker.h"
#include "train/updater.h"

namespace lockstep::train {

/// A worker sums nothing with others. The first one, `lead`, has memory for the optimizer's slots that a checkpoint has.
UpdaterNeeds worker_needs(ServerMode mode, bool lead);
/// Of a worker, as parts.config.servers says; `world` has the servers too and outlives it.
std::unique_ptr<Updater> make_worker_updater(const UpdaterParts& parts, comm::Communicator& world);

}  // namespace lockstep::train
