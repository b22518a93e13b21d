#include "io/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace lockstep::io {
namespace {

std::optional<double> number_in(const Path& file) {
  std::ifstream stream(file);
  double value = 0;
  return stream >> value ? std::optional(value) : std::nullopt;
}

// Version 2 has "QUOTA PERIOD" in microseconds or "max PERIOD" in one file, version 1 a file for each, -1 for no limit
// (https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/scheduler/sched-bwc.html).
std::optional<double> quota_of(const Path& group) {
  std::ifstream both(group / "cpu.max");
  double quota = 0, period = 0;
  if (!(both >> quota >> period)) {
    quota = number_in(group / "cpu.cfs_quota_us").value_or(0);
    period = number_in(group / "cpu.cfs_period_us").value_or(0);
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

std::optional<double> cpu_quota(const Path& root) {
  std::optional<double> least;
  std::ifstream groups(root / "proc/self/cgroup");  // lines NUMBER:CONTROLLERS:PATH; of version 2 there are no controllers
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",cpu,") == std::string::npos) continue;
    const Path mount = root / "sys/fs/cgroup" / (controllers == ",," ? "" : "cpu");
    // In a container the path may be one of the host's: then the mount itself is the group.
    for (Path path = Path(line.substr(second + 1)).relative_path();; path = path.parent_path()) {
      const std::optional<double> found = quota_of(mount / path);
      if (found) least = std::min(least.value_or(*found), *found);
      if (path.empty()) break;
    }
  }
  return least;
}

}  // namespace lockstep::io
