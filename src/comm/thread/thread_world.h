#pragma once

// N ranks as N threads of this process: no daemon, no sockets. What one rank gives, the others read where it lies.

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace lockstep::comm {

struct ThreadWorldOptions {
  double timeout = 600;  ///< seconds, see comm/communicator.h
  int threads = 1;       ///< of each rank: tells whether the host has more threads than cores
};

/// Calls body(world) once for every rank at the same time, rank 0 on the calling thread. Returns when all have ended. A rank that
/// throws ends the others; the first error is rethrown.
void run_ranks(int ranks, const ThreadWorldOptions& options, const std::function<void(Communicator&)>& body);

}  // namespace lockstep::comm
