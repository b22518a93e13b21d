#pragma once

// Monotonic time.

#include <chrono>

namespace lockstep {

/// Seconds of the monotonic clock.
inline double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Adds the time from its construction to its destruction to `total`.
class ScopedTime {
 public:
  explicit ScopedTime(double& total) : total_(total), start_(now_seconds()) {}
  ~ScopedTime() { total_ += now_seconds() - start_; }
  ScopedTime(const ScopedTime&) = delete;
  ScopedTime& operator=(const ScopedTime&) = delete;

 private:
  double& total_;
  double start_;
};

}  // namespace lockstep
