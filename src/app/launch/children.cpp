#include "app/launch/children.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace lockstep::launch {

std::vector<int> children_of(int process) {
  std::vector<int> found;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    std::ifstream children(task.path() / "children");
    for (int child = 0; children >> child;) found.push_back(child);
  }
  return found;
}

Orphans::Orphans() : others_(children_of(getpid())) { prctl(PR_SET_CHILD_SUBREAPER, 1); }

Orphans::~Orphans() {
  for (bool any = true; any;) {
    any = false;
    for (const int child : children_of(getpid())) {
      if (std::ranges::find(others_, child) != others_.end()) continue;
      any = kill(child, SIGKILL) == 0 || any;
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace lockstep::launch
