#pragma once

// The worker's side of training on parameter servers. Either the servers reduce the workers' gradients and update the weights, or
// every worker updates weights by itself and the servers average them.

#include <memory>

#include "parallel/server/worker.h"
#include "train/updater.h"

namespace lockstep::train {

/// The needs of a worker, which sums nothing with others. The first worker, `lead`, has memory for the slots of a checkpoint.
UpdaterNeeds worker_needs(ServerMode mode, bool lead);
/// The updater of a worker in the mode of parts.config.servers. `world` has the servers, too, and outlives the updater.
std::unique_ptr<Updater> make_worker_updater(const UpdaterParts& parts, comm::Communicator& world);

}  // namespace lockstep::train
