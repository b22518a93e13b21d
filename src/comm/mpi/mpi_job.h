#pragma once

// Whether this process is one of several that mpiexec, mpirun or srun started, as its environment says. A plain run never touches
// MPI.

#include <functional>
#include <optional>
#include <string>

namespace lockstep::comm {

struct MpiJob {
  int rank = 0;
  int ranks = 1;                ///< more than one
  std::string launcher;         ///< "mpiexec" or "srun"
  bool connected = true;        ///< the launcher said how to find the other ranks (PMIx, PMI)
  std::string mpi = "openmpi";  ///< which MPI's plugin: "openmpi", "mpich", or what LOCKSTEP_MPI says
};

/// `variable(name)` is the value of an environment variable, or null.
std::optional<MpiJob> find_mpi_job(const std::function<const char*(const char*)>& variable);
/// The job that this process's environment names.
std::optional<MpiJob> find_mpi_job();

}  // namespace lockstep::comm
