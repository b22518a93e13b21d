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
  if (account_ == nullptr) return how(*pending);
  account_->hidden += now_seconds() - since_;
  {
    const ScopedTime timed(account_->waited);
    const ScopedSpan span(told_.spans, SpanKind::waiting, told_.name, {told_.bytes});
    how(*pending);
  }
  tell();
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

namespace {

class All final : public Request::Pending {
 public:
  explicit All(std::vector<Request> requests) : requests_(std::move(requests)) {}
  void wait() override {
    for (Request& request : requests_) request.wait();
  }
  void join(Stream& stream) override {
    for (Request& request : requests_) request.join(stream);
  }
  bool poll(bool patient) override {
    bool ended = true;
    for (Request& request : requests_) ended = request.poll(patient) && ended;
    return ended;
  }

 private:
  std::vector<Request> requests_;  // abandoned with this while an exception is on its way
};

}  // namespace

Request all_of(std::vector<Request> requests) {
  if (requests.size() == 1) return std::move(requests.front());
  return Request(std::make_unique<All>(std::move(requests)));
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
