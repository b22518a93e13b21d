#pragma once

// The order of work on a device. All ops, copies and collectives are issued on a Stream; the only ordering verbs are
// `event.record` (by Stream::record) and `stream.wait(event)`. The CPU's stream is immediate: work is done when issued.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

/// A point in a stream's work. The recorder owns it.
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
  /// Copies `bytes` from one space of the runtime to another, or within one, in the order of the stream's work. The host leaves
  /// both sides alone until the copy is done. They may not overlap; where they are the same, nothing is done.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;

  /// Work that wants to move forward between ops (a CPU collective); `callback` must be short. Ops call progress().
  void add_progress(std::function<void()> callback) { progress_.push_back(std::move(callback)); }
  void progress() {
    for (auto& callback : progress_) callback();
  }

 private:
  std::vector<std::function<void()>> progress_;
};

/// A stream of the CPU.
std::unique_ptr<Stream> make_immediate_stream();

}  // namespace lockstep
