#pragma once

// The processes that a process has started.

#include <vector>

namespace lockstep::launch {

/// As /proc tells them; empty where there is no such process.
std::vector<int> children_of(int process);

/// While this lives, processes whose parent below this one ends become this one's. Its end kills all of them, and theirs. Ranks
/// outlive a launcher that is killed, in process groups of their own. They would keep the run's folder.
class Orphans {
 public:
  Orphans();
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

 private:
  std::vector<int> others_;  // children that were there before
};

}  // namespace lockstep::launch
