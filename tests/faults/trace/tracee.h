#pragma once

// The traced process: started with the filter that stops it at calls, read and changed while it stands at one.

#include <sys/types.h>
#include <sys/user.h>

#include "faults/trace/call.h"
#include "faults/trace/tracer.h"

namespace lockstep::faults {

/// Starts a process, in a group of its own, that waits for go().
class Started {
 public:
  /// `filtered`: its calls stop it, which needs a tracer.
  Started(const Body& body, bool filtered);
  ~Started();
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  pid_t process() const { return process_; }
  void go();

 private:
  pid_t process_;
  int gate_ = -1;  // an event that the process waits for
};

/// A thread that stands at a call.
class AtCall {
 public:
  explicit AtCall(pid_t thread);
  long number() const { return static_cast<long>(registers_.orig_rax); }
  std::uint64_t argument(int index) const;
  void set_argument(int index, std::uint64_t value);
  /// Has the call not made and the program told this error.
  void refuse(int error);
  /// What the program is told, once the call is made.
  std::int64_t result() const { return static_cast<std::int64_t>(registers_.rax); }
  void set_result(std::int64_t result);

  /// What the call is about. Its paths are absolute.
  Call describe(const CallKind& kind) const;
  /// The bytes of the file that the call has changed.
  std::string content(const Call& call) const;

 private:
  Path path_of(int descriptor, int path) const;
  std::string text_at(std::uint64_t address) const;
  void store();

  pid_t thread_;
  user_regs_struct registers_{};
};

}  // namespace lockstep::faults
