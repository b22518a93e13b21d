#include "comm/mpi/watchdog.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/terminal.h"
#include "base/thread.h"

namespace lockstep::comm {

Watchdog::Watchdog(double seconds, std::string what)
    : thread_(start_thread("watchdog", [this, seconds, what = std::move(what)](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        ended_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
        if (stop.stop_requested()) return;
        say(stderr,
            fmt::format("lockstep: {} did not end within comm.timeout = {} s: another rank has not come\n", what, seconds));
        std::_Exit(1);
      })) {}

Watchdog::~Watchdog() = default;

}  // namespace lockstep::comm
