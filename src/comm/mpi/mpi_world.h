#pragma once

// N ranks that mpiexec or srun started as processes. MPI brings them together. Ranks of one host share memory. Data goes from
// buffer to buffer by the code of threads, so with the same bits. All ranks of a host see the memory of Communicator::window().
// What lies elsewhere is copied (comm/host/staging.h). Hosts exchange messages, with the same bits again
// (comm/mpi/message_communicator.h, host_first.h). The calling thread alone calls MPI.

#include <functional>

#include "comm/communicator.h"
#include "comm/mpi/mpi_job.h"

namespace lockstep::comm {

struct MpiOptions {
  double timeout = 600;  ///< seconds, see comm/communicator.h
  int threads = 1;       ///< of each rank: tells whether the host has more threads than cores
  int host_ranks = 0;    ///< treat so many neighbours as the ranks of one host; 0: hosts are as they are
};

/// This rank's place among the ranks of its host that may use the same cores.
struct CoreSharing {
  int rank = 0;
  int ranks = 1;
};

/// This rank's place among all ranks of its host. They divide the host's GPUs, however a launcher has divided the cores.
struct HostPlace {
  int rank = 0;
  int ranks = 1;
  CoreSharing cores;
};

/// Calls body(world, place) on this process's rank and returns when every rank's body has ended. A rank that throws ends the
/// others within seconds. Every rank then throws an error of the same family (UserError or SystemError), which names that rank
/// and what it said. When a rank does not follow, or is no more, that is printed, and MPI ends the job with exit code 2
/// (UserError) or 1. On several hosts a rank that throws ends the job so at once. Called once in a process. `job`: what
/// find_mpi_job() found. Throws UserError when whatever started the processes did not bring them together.
void run_mpi(const MpiJob& job, const MpiOptions& options,
             const std::function<void(Communicator& world, const HostPlace& place)>& body);

}  // namespace lockstep::comm
