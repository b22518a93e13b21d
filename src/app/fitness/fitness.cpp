#include "app/fitness/fitness.h"

#include "comm/mpi/mpi_job.h"
#include "device/topology.h"

namespace lockstep::app {

RankCount rank_count(const std::optional<std::int64_t>& asked) {
  if (const auto job = comm::find_mpi_job()) return {asked.value_or(1), job->ranks};
  const std::int64_t ranks = asked ? *asked : std::ssize(neighbouring_cores());
  return {ranks, ranks};
}

}  // namespace lockstep::app
