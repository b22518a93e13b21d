#pragma once

// The order of work on a device. All ops and collectives are issued on a Stream; the only ordering verbs are
// `event.record` (by Stream::record) and `stream.wait(event)`. The CPU's stream is immediate: work is done when issued.

#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

/// A point in a stream's work. Owned by who records it.
class Event {
 public:
  virtual ~Event() = default;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  /// Blocks the caller until everything issued so far is done.
  virtual void synchronize() = 0;

  /// Work that wants to move forward between ops (a CPU collective); `callback` must be short. Ops call progress().
  void add_progress(std::function<void()> callback) { progress_.push_back(std::move(callback)); }
  void progress() {
    for (auto& callback : progress_) callback();
  }

 private:
  std::vector<std::function<void()>> progress_;
};

}  // namespace lockstep
