#pragma once

// A deadline for calls of MPI, which have none of their own.

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace lockstep::comm {

/// Unless the watchdog is destroyed within `seconds`, it prints `says` and ends the process with `exit_code`. The launcher then
/// ends the other ranks.
class Watchdog {
 public:
  Watchdog(double seconds, std::string says, int exit_code = 1);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

/// What a rank says that has waited for the others at `what` for comm.timeout, `seconds`.
std::string nobody_came(std::string_view what, double seconds);

}  // namespace lockstep::comm
