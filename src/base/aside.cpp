#include "base/aside.h"

#include <utility>

#include "base/thread.h"

namespace lockstep {

Aside::Aside(const std::string& name, std::function<void(const std::stop_token&)> work)
    : thread_(start_thread(name, [this, todo = std::move(work)](const std::stop_token& stop) {
        try {
          todo(stop);
        } catch (...) {
          failure_ = std::current_exception();
        }
        done_.store(true, std::memory_order_release);
        done_.notify_all();
      })) {}

void Aside::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace lockstep
