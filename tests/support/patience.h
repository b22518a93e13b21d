#pragma once

// Waits that end: what does not come in time fails the test in place of holding up all of them.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace lockstep::support {

constexpr std::chrono::seconds patience{100};  // of a busy machine; CTest ends a test after 300 s

/// Whether `condition` comes true in time; it is asked again after `rest`.
template <class Condition>
bool comes_true(const Condition& condition, std::chrono::microseconds rest = std::chrono::milliseconds(2),
                std::chrono::steady_clock::duration within = patience) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return condition();
    rest.count() > 0 ? std::this_thread::sleep_for(rest) : std::this_thread::yield();
  }
  return true;
}

/// What waitpid() says of a child's end. One that does not end in time is killed, which fails the test.
inline int status_of(pid_t child, std::chrono::steady_clock::duration within = patience) {
  int status = 0;
  pid_t ended = 0;
  const auto has_ended = [&] { return (ended = waitpid(child, &status, WNOHANG)) != 0 && (ended > 0 || errno != EINTR); };
  if (!comes_true(has_ended, std::chrono::milliseconds(1), within)) {
    ADD_FAILURE() << "process " << child << " has not ended in time";
    kill(child, SIGKILL);
    ended = waitpid(child, &status, 0);
  }
  EXPECT_EQ(ended, child);
  return status;
}

}  // namespace lockstep::support
