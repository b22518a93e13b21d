#include "comm/request.h"

#include <sched.h>

#include <ctime>
#include <exception>

#include "base/error.h"
#include "base/timer.h"
#include "comm/errors.h"

namespace lockstep::comm {

template <class Finish>
void Request::finish(const Finish& how) {
  const std::unique_ptr<Pending> pending = std::exchange(pending_, nullptr);
  if (!pending) return;
  if (waited_ == nullptr) return how(*pending);
  const ScopedTime timed(*waited_);
  how(*pending);
}

void Request::wait() {
  finish([](Pending& pending) { pending.wait(); });
}

void Request::join(Stream& stream) {
  finish([&](Pending& pending) { pending.join(stream); });
}

void Request::end() {
  if (!pending_) return;
  if (std::uncaught_exceptions() > 0) return std::exchange(pending_, nullptr)->abandon();
  try {
    wait();
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
    // The awaited ranks compute meanwhile, perhaps on this core.
    if (turn < yields) {
      sched_yield();
    } else {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }
}

}  // namespace lockstep::comm
