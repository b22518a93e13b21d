#pragma once

// A deadline for calls of MPI, which have none of their own.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::comm {

/// Unless it is destroyed within `seconds`, it says that `what` did not end, as another rank has not come, and ends the process
/// with exit code 1; the launcher then ends the others.
class Watchdog {
 public:
  Watchdog(double seconds, std::string what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

}  // namespace lockstep::comm
