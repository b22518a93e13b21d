#pragma once

// Calls that a signal interrupts are made again.

#include <cerrno>

namespace lockstep::io {

/// The result of call(), which gives -1 and errno on failure, once no signal has interrupted it.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace lockstep::io
