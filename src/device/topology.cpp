#include "device/topology.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <fstream>

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

// What a core shares with others, the widest first: package, die, memory, caches, and the core that its threads are. Each is
// named by its first core.
using Place = std::array<int, 6>;

// The first number in a file of the kernel; `otherwise` where there is no such file.
int first_in(const std::filesystem::path& file, int otherwise) {
  int first = otherwise;
  std::ifstream(file) >> first;
  return first;
}

Place place_of(int core, const std::filesystem::path& system) {
  const std::filesystem::path own = system / fmt::format("cpu/cpu{}", core);
  Place place{first_in(own / "topology/package_cpus_list", 0),      first_in(own / "topology/die_cpus_list", 0), 0, 0, 0,
              first_in(own / "topology/thread_siblings_list", core)};
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(own, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node")) place[2] = first_in(system / "node" / name / "cpulist", 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(own / "cache", none)) {
    const int level = first_in(entry.path() / "level", 0);
    if (level == 2 || level == 3) place[level == 3 ? 3 : 4] = first_in(entry.path() / "shared_cpu_list", 0);
  }
  return place;
}

}  // namespace

std::vector<int> neighbouring_cores() {
  const cpu_set_t allowed = allowed_set();
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &allowed)) cores.push_back(core);
  }
  return beside_each_other(cores, "/sys/devices/system");
}

std::vector<int> beside_each_other(const std::vector<int>& cores, const std::filesystem::path& system) {
  std::vector<std::pair<Place, int>> placed;
  placed.reserve(cores.size());
  for (const int core : cores) placed.emplace_back(place_of(core, system), core);
  std::ranges::sort(placed);
  std::vector<int> ordered;
  ordered.reserve(cores.size());
  for (const auto& [place, core] : placed) ordered.push_back(core);
  return ordered;
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
