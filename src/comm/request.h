#pragma once

// A pending operation. Move-only. A default-made one is already finished.
//
// The destructor of a request that was not waited for waits; an error that ends the run is left to the next operation to tell.
// While an exception is on its way it does not wait: the operation is abandoned.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/span_log.h"
#include "comm/traffic.h"

namespace lockstep {
class Stream;
}

namespace lockstep::comm {

class [[nodiscard]] Request {
 public:
  /// What a transport still has to do.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
    /// What is issued on the stream from now on comes behind the operation. Where no stream can wait for a transport's
    /// operations, this blocks until the operation is done.
    virtual void join(Stream& /*stream*/) { wait(); }
    /// Moves the operation forward. True when the operation has ended; poll() is not called again then. A `patient` caller gets
    /// no error when the operation does not end in time.
    virtual bool poll(bool patient) = 0;
    /// This rank is failing and will not wait any more.
    virtual void abandon() {}
  };

  Request() = default;
  explicit Request(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept {
    if (this == &other) return *this;
    end();
    pending_ = std::move(other.pending_);
    account_ = other.account_;
    since_ = other.since_;
    told_ = other.told_;
    return *this;
  }
  ~Request() { end(); }

  /// Blocks until the operation is done. Throws what went wrong with it.
  void wait();
  /// What is issued on the stream from now on comes behind the operation. It is for data that only the device's work looks at.
  /// The host goes on where it can; on the CPU this is a wait. Throws as wait() does.
  void join(Stream& stream);
  /// Moves the operation forward without blocking. Returns whether the operation has ended. Throws what went wrong with it.
  /// Unless `patient`, it also throws when the operation does not end in time, as wait() does.
  bool poll(bool patient = false) {
    auto pending = std::exchange(pending_, nullptr);  // one that throws has ended
    if (!pending) return true;
    if (!pending->poll(patient)) pending_ = std::move(pending);
    if (pending_ == nullptr) {
      if (account_ != nullptr) account_->hidden += now_seconds() - since_;
      tell();
    }
    return pending_ == nullptr;
  }
  bool finished() const { return pending_ == nullptr; }
  /// Adds to `account` the time that is spent in wait() and join(), and what other time passes until the operation has ended.
  /// `account` lives until then.
  void count_in(Exchanged& account) {
    account_ = &account;
    since_ = pending_ ? now_seconds() : 0;
  }
  /// Adds to the log the operation, from `begun` to its end. The time that is spent in wait() and join() is a span of its own.
  /// `spans` lives until the operation has ended.
  void tell(SpanLog& spans, std::string_view name, double begun, std::int64_t bytes) {
    told_ = {&spans, name, begun, bytes};
    if (finished()) tell();
  }

 private:
  void end();
  template <class Finish>
  void finish(const Finish& how);

  struct Told {
    SpanLog* spans = nullptr;
    std::string_view name = {};
    double begun = 0;
    std::int64_t bytes = 0;
  };
  /// Called when the operation has ended: adds it to the log.
  void tell() {
    if (told_.spans == nullptr) return;
    told_.spans->add({SpanKind::exchange, told_.name, told_.begun, now_seconds(), {told_.bytes}});
  }

  std::unique_ptr<Pending> pending_;
  Exchanged* account_ = nullptr;
  double since_ = 0;
  Told told_;
};

/// A request that ends when all of `requests` have.
Request all_of(std::vector<Request> requests);

/// Blocks until one of the requests has ended, however long that takes, and returns its index. The search begins at `first`, so
/// that a caller that goes round is fair to all. There is at least one request.
std::size_t wait_any(std::span<Request* const> requests, std::size_t first = 0);

}  // namespace lockstep::comm
