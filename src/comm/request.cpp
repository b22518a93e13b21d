#include "comm/request.h"

#include <sched.h>

#include <ctime>
#include <exception>

#include "base/error.h"
#include "comm/errors.h"

namespace lockstep::comm {

void Request::end() {
  const std::unique_ptr<Pending> pending = std::exchange(pending_, nullptr);
  if (!pending) return;
  if (std::uncaught_exceptions() > 0) return pending->abandon();
  try {
    pending->wait();
  } catch (const RunAborted&) {
    return;
  }
}

std::size_t wait_any(std::span<Request* const> requests, std::size_t first) {
  ensure(!requests.empty(), "there is something to wait for");
  constexpr int yields = 1024;
  for (int turn = 0;; ++turn) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::size_t at = (first + i) % requests.size();
      if (requests[at]->poll(true)) return at;
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
