#pragma once

// Work that a thread of its own does, beside the one that asked for it.

#include <atomic>
#include <exception>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep {

class Aside {
 public:
  /// Starts the work; `name` as in start_thread() (base/thread.h), whose errors are thrown.
  Aside(const std::string& name, std::function<void(const std::stop_token&)> work);
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  /// Asks the work to stop and waits for it. What it threw is lost.
  ~Aside() = default;

  /// Whether the work has ended, well or not.
  bool done() const { return done_.load(std::memory_order_acquire); }
  void wait() const { done_.wait(false, std::memory_order_acquire); }
  /// Throws what ended work that is done, if anything did.
  void rethrow() const;

 private:
  std::exception_ptr failure_;
  std::atomic<bool> done_ = false;
  std::jthread thread_;  ///< last: it ends before the rest goes
};

}  // namespace lockstep
