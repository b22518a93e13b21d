#pragma once

// Training on parameter servers, a worker's side: the servers reduce its gradients with those of the others and update the
// weights, or average the weights that every worker has updated by itself.

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/server/worker.h"
#include "train/updater.h"

namespace lockstep::train {

/// What workers push, and when servers act.
enum class ServerMode : std::uint8_t {
  gradients,  ///< servers wait for all workers' gradients, and update once: the same as data parallelism
  weights,    ///< every worker updates its own weights; servers wait for all and average
  async       ///< servers update as each worker's gradient arrives
};

/// Of a worker; `world` has the servers too and outlives it.
std::unique_ptr<Updater> make_worker_updater(const UpdaterParts& parts, ServerMode mode, comm::Communicator& world, int servers);

/// How these parameters lie on servers.
layout::KeyRanges key_ranges(const EngineConfig& config, const std::vector<layout::Unit>& units, int workers, int servers);

}  // namespace lockstep::train
