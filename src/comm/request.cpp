#include "comm/request.h"

#include <sched.h>

#include <ctime>

#include "base/error.h"

namespace lockstep::comm {

std::size_t wait_any(std::span<Request* const> requests, std::size_t first) {
  ensure(!requests.empty(), "there is something to wait for");
  constexpr int yields = 1024;
  for (int turn = 0;; ++turn) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::size_t at = (first + i) % requests.size();
      if (requests[at]->poll()) return at;
    }
    // Whoever is waited for computes meanwhile, perhaps on this core.
    if (turn < yields) {
      sched_yield();
    } else {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }
}

}  // namespace lockstep::comm
