#pragma once

// What one rank did when, for a trace of its run: a bounded list of spans of time, in memory that the caller provides. While the
// log is off, adding a span costs a branch.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/timer.h"

namespace lockstep {

enum class SpanKind : std::uint8_t {
  step,      ///< numbers: the step
  phase,     ///< a part of the run or of a step; no numbers
  pass,      ///< a pass of a chunk of the model; numbers: micro-batch, chunk
  op,        ///< an op; numbers: m, n and k of a product
  waiting,   ///< the rank stands still for an exchange or a disk; numbers: bytes
  exchange,  ///< between ranks, from its start until its end was seen; numbers: bytes
  disk,      ///< a move to a disk or from it, from its start until its end was seen; numbers: bytes
  count
};

struct Span {
  SpanKind kind;
  std::string_view name;      ///< lives as long as the program, as `of` does
  double start = 0, end = 0;  ///< now_seconds()
  std::array<std::int64_t, 3> numbers{};
  std::string_view of = {};  ///< the family of an op
};

/// Used by one thread.
class SpanLog {
 public:
  /// Keeps nothing until it is given room.
  SpanLog() = default;
  explicit SpanLog(std::span<Span> room) : room_(room) {}
  /// Keeps spans in `room` from now on and forgets earlier ones. `room` outlives its use.
  void keep_in(std::span<Span> room) {
    room_ = room;
    kept_ = 0;
  }

  void turn(bool on) { on_ = on; }
  bool on() const { return on_; }
  /// Keeps a span while the log is on and has room.
  void add(const Span& span) noexcept {
    if (!on_) return;
    if (kept_ == room_.size()) {
      ++dropped_;
    } else {
      room_[kept_++] = span;
    }
  }

  std::span<const Span> spans() const { return room_.first(kept_); }
  /// The number of spans for which there was no room.
  std::int64_t dropped() const { return dropped_; }
  /// Nothing is kept any more, and the room is not touched.
  void close() {
    on_ = false;
    keep_in({});
  }

 private:
  std::span<Span> room_;
  std::size_t kept_ = 0;
  std::int64_t dropped_ = 0;
  bool on_ = false;
};

/// Adds a span from its construction to its destruction. Without a log it does nothing.
class [[nodiscard]] ScopedSpan {
 public:
  ScopedSpan(SpanLog* log, SpanKind kind, std::string_view name, std::array<std::int64_t, 3> numbers = {})
      : log_(log != nullptr && log->on() ? log : nullptr), span_{.kind = kind, .name = name, .numbers = numbers} {
    if (log_ != nullptr) span_.start = now_seconds();
  }
  ~ScopedSpan() {
    if (log_ == nullptr) return;
    span_.end = now_seconds();
    log_->add(span_);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  SpanLog* log_;
  Span span_;
};

}  // namespace lockstep
