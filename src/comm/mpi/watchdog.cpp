#include "comm/mpi/watchdog.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/terminal.h"
#include "base/thread.h"

namespace lockstep::comm {

Watchdog::Watchdog(double seconds, std::string says, int exit_code)
    : thread_(start_thread("watchdog", [this, seconds, exit_code, says = std::move(says)](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        ended_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
        if (stop.stop_requested()) return;
        say(stderr, says);
        std::_Exit(exit_code);
      })) {}

Watchdog::~Watchdog() = default;

std::string nobody_came(std::string_view what, double seconds) {
  return fmt::format("lockstep: {} did not end within comm.timeout = {} s: another rank has not come\n", what, seconds);
}

}  // namespace lockstep::comm
