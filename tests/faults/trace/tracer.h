#pragma once

// Runs a program and stands between it and the kernel. Every call that concerns the files of a folder is counted, over all
// threads and children. The n-th of them can be made to fail, to write less than it was asked, or to be the last.
//
// ptrace() with a seccomp filter stops the program at the calls of call_kinds() and at no others. A call counts where its path,
// or what its descriptor stands for (/proc/PID/fd), lies in the folder. A loader and the C library read their own files
// elsewhere. So these do not drown the program's calls. A call of `io_uring_enter` always counts, for its descriptor stands for
// no file.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "faults/trace/call.h"

namespace lockstep::faults {

enum class Act { kill, fail, shorten };

struct Fault {
  std::size_t at = 0;   ///< which of the counted calls, from 1; 0: none
  Act act = Act::kill;  ///< kill: before the call, with all its threads and children
  int error = 0;        ///< the errno, where the act is fail
  /// "kill", "ENOSPC", "short".
  std::string text() const;
};

/// Whether a call can have such a fault.
bool can_have(const Fault& fault, const Call& call);

/// What runs in a process of its own. The process ends with the exit code that it returns. It may exec.
using Body = std::function<int()>;

struct TraceOptions {
  Path folder;  ///< whose calls count; canonical
  Fault fault;
  std::function<int(const Call&)> refused = nullptr;  ///< an error that the file system always gives to a call; 0: none
  bool records = false;                               ///< results and contents of calls are recorded
  double limit_seconds = 60;
};

struct Outcome {
  int code = 0;           ///< exit code, or -signal
  bool too_long = false;  ///< it was ended after the limit
  std::vector<Call> calls;
  std::size_t struck = 0;  ///< the call that the fault came to, from 1; 0: to none
};

/// Throws SystemError where tracing is refused.
Outcome trace(const Body& body, const TraceOptions& options);

/// As trace(), without a tracer: `calls` stays empty.
Outcome run(const Body& body, double limit_seconds = 60);

/// Why nothing can be traced here; empty: it can.
std::string why_not_traced();

}  // namespace lockstep::faults
