#include "io/free_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/number_text.h"

namespace lockstep::io {
namespace {

/// The number behind `name` in lines of names and numbers; a colon ends a name too.
std::optional<std::int64_t> number_behind(const Path& file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::int64_t number = 0;
    if (words >> first >> number && (first == name || first == std::string(name) + ":")) return number;
  }
  return std::nullopt;
}

std::optional<std::int64_t> in_meminfo(const Path& root, std::string_view name) {
  const auto kib = number_behind(root / "proc/meminfo", name);
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

/// A file that holds one number; nothing for another text, as "max".
std::optional<std::int64_t> number_in(const Path& file) {
  std::ifstream stream(file);
  std::string text;
  stream >> text;
  return number_from<std::int64_t>(text);
}

/// The names of a version's files (https://docs.kernel.org/admin-guide/cgroup-v2.html, .../cgroup-v1/memory.html).
struct Version {
  const char *mount, *limit, *used, *inactive, *active;
};
constexpr Version kFirst{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                         "total_active_file"};
constexpr Version kSecond{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"};

/// The limits of a group and of all groups that it lies in count. In a container the path may be one of the host's: then the
/// mount itself is the group.
void take_limits(const Version& version, const Path& root, const Path& group, std::optional<FreeMemory>& least) {
  const Path mount = root / version.mount;
  for (Path path = group.relative_path();; path = path.parent_path()) {
    const Path folder = path.empty() ? mount : mount / path;
    const auto limit = number_in(folder / version.limit), used = number_in(folder / version.used);
    if (limit && used) {
      const Path statistics = folder / "memory.stat";
      const std::int64_t droppable =
          number_behind(statistics, version.inactive).value_or(0) + number_behind(statistics, version.active).value_or(0);
      const std::int64_t left = std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - droppable));
      if (!least || left < least->bytes) least = FreeMemory{left, "the control group's " + std::string(version.limit)};
    }
    if (path.empty()) return;
  }
}

}  // namespace

std::optional<FreeMemory> free_memory(const Path& root) {
  std::optional<FreeMemory> least;
  if (const auto available = in_meminfo(root, "MemAvailable")) least = {*available, "MemAvailable of /proc/meminfo"};
  std::ifstream groups(root / "proc/self/cgroup");  // lines NUMBER:CONTROLLERS:PATH; of version 2 there are no controllers
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") take_limits(kSecond, root, line.substr(second + 1), least);
    if (controllers.find(",memory,") != std::string::npos) take_limits(kFirst, root, line.substr(second + 1), least);
  }
  return least;
}

std::optional<std::int64_t> memory_of_machine(const Path& root) { return in_meminfo(root, "MemTotal"); }

}  // namespace lockstep::io
