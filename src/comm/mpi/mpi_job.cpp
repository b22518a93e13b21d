#include "comm/mpi/mpi_job.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace lockstep::comm {
namespace {

std::optional<int> number(const char* text) {
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || at != end || value < 0) return std::nullopt;
  return value;
}

struct Source {
  const char *rank, *ranks, *launcher;
  bool connected;              // always
  const char* mark = nullptr;  // another variable that the launcher sets
};

// Open MPI's mpiexec; srun, whose steps alone know their number of tasks; other starters that speak PMI; PyTorch's torchrun.
// Processes of torchrun would each train alone (torch/distributed/elastic/agent/server/local_elastic_agent.py).
constexpr std::array<Source, 4> sources{{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpiexec", true},
                                         {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun", false},
                                         {"PMI_RANK", "PMI_SIZE", "mpiexec", true},
                                         {"RANK", "WORLD_SIZE", "torchrun", false, "TORCHELASTIC_RUN_ID"}}};

// PMI is MPICH's; PMIx, Open MPI's.
std::string mpi_of(const std::function<const char*(const char*)>& variable) {
  if (const char* named = variable("LOCKSTEP_MPI")) return named;
  const bool pmix = variable("OMPI_COMM_WORLD_RANK") != nullptr || variable("PMIX_RANK") != nullptr;
  return pmix || variable("PMI_RANK") == nullptr ? "openmpi" : "mpich";
}

}  // namespace

std::optional<MpiJob> find_mpi_job(const std::function<const char*(const char*)>& variable) {
  for (const Source& source : sources) {
    const std::optional<int> rank = number(variable(source.rank)), ranks = number(variable(source.ranks));
    if (!rank || !ranks || *rank >= *ranks) continue;
    if (source.mark != nullptr && variable(source.mark) == nullptr) continue;
    if (*ranks == 1) return std::nullopt;
    const bool connected = source.connected || variable("PMIX_RANK") != nullptr || variable("PMI_RANK") != nullptr;
    return MpiJob{*rank, *ranks, source.launcher, connected, mpi_of(variable)};
  }
  return std::nullopt;
}

std::optional<MpiJob> find_mpi_job() {
  return find_mpi_job([](const char* name) { return std::getenv(name); });
}

}  // namespace lockstep::comm
