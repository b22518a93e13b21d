#pragma once

// Runs of small programs to their end, for a limited time.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::io {

struct ChildOutcome {
  int start_error = 0;     ///< an errno when the program could not be started
  bool timed_out = false;  ///< it was killed for its slowness
  int status = 0;          ///< its exit code, 128 + the signal that killed or should have killed it, or 127: it was not started
  std::string out, err;    ///< its standard output and standard error
};

struct ChildStreams {
  std::string_view input = {};                     ///< at most 64 KiB
  std::function<void(std::string_view)> out = {};  ///< gets the output as it comes, in place of ChildOutcome::out
};

/// Runs words[0] (looked for in PATH) with its arguments, without a shell. After `seconds` it is killed, with the processes that
/// it started. A process that does not end even then, since the kernel holds it, is left behind. An exception of streams.out
/// kills the program, too, and is passed on. Throws SystemError when there are no descriptors left.
ChildOutcome run_child(const std::vector<std::string>& words, double seconds, const ChildStreams& streams = {});

}  // namespace lockstep::io
