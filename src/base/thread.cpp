#include "base/thread.h"

#include <fmt/format.h>
#include <pthread.h>

#include <system_error>
#include <utility>

#include "base/error.h"

namespace lockstep {

std::jthread start_thread(const std::string& name, std::function<void(const std::stop_token&)> work) {
  try {
    std::jthread thread(std::move(work));
    pthread_setname_np(thread.native_handle(), name.c_str());
    return thread;
  } catch (const std::system_error& error) {
    throw SystemError(
        fmt::format("the thread {} cannot be started: {}\n  -> use fewer ranks or threads, or raise the limit (ulimit -u, ulimit "
                    "-v, pids.max of the control group)",
                    name, error.code().message()));
  }
}

}  // namespace lockstep
