#include "device/topology.h"

#include <hwloc.h>
#include <pthread.h>

#include "base/error.h"

namespace lockstep {
namespace {

cpu_set_t allowed_set() {
  cpu_set_t set;
  CPU_ZERO(&set);
  pthread_getaffinity_np(pthread_self(), sizeof set, &set);
  return set;
}

void set_cores(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  // A core that went offline meanwhile is no reason to stop: the thread stays where it may run.
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

std::vector<int> neighbouring_cores() {
  const cpu_set_t allowed = allowed_set();
  std::vector<int> cores;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw SystemError("hwloc_topology_init failed");
  if (hwloc_topology_load(topology) == 0) {
    for (hwloc_obj_t unit = nullptr; (unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) != nullptr;) {
      if (unit->os_index < CPU_SETSIZE && CPU_ISSET(unit->os_index, &allowed)) cores.push_back(static_cast<int>(unit->os_index));
    }
  }
  hwloc_topology_destroy(topology);
  return cores;
}

std::vector<int> share_of_cores(const std::vector<int>& cores, int rank, int ranks) {
  const auto n = static_cast<std::ptrdiff_t>(cores.size());
  if (ranks > n) return cores;
  return {cores.begin() + n * rank / ranks, cores.begin() + n * (rank + 1) / ranks};
}

ScopedCores::ScopedCores(const std::vector<int>& cores) {
  ensure(!cores.empty(), "a thread has a core");
  const cpu_set_t before = allowed_set();
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &before)) before_.push_back(core);
  }
  set_cores(cores);
}

ScopedCores::~ScopedCores() { set_cores(before_); }

}  // namespace lockstep
