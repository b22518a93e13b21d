#include "faults/trace/tracer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "faults/trace/tracee.h"

namespace lockstep::faults {
namespace {

// Ends a group of processes that takes too long. Time while this process was stopped itself does not count.
class Limit {
 public:
  Limit(pid_t group, double seconds)
      : thread_([this, group, seconds](const std::stop_token& stop) {
          constexpr double slice = 0.1;
          std::unique_lock lock(mutex_);
          for (double waited = 0; waited < seconds; waited += slice) {
            ended_.wait_for(lock, stop, std::chrono::duration<double>(slice), [] { return false; });
            if (stop.stop_requested()) return;
          }
          passed_ = true;
          ::kill(-group, SIGKILL);
        }) {}
  /// Whether it was ended. Once.
  bool end() {
    thread_.request_stop();
    thread_.join();
    return passed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  bool passed_ = false;
  std::jthread thread_;
};

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

bool is_below(const Path& path, const Path& folder) {
  const std::string& whole = path.native();
  const std::string& start = folder.native();
  return whole.starts_with(start) && (whole.size() == start.size() || whole[start.size()] == '/');
}

/// One run under a tracer. All of it is done by one thread, whose children alone it waits for.
class Tracing {
 public:
  Tracing(pid_t process, const TraceOptions& options) : process_(process), options_(options) {}

  void attach() const {
    constexpr long follow = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                            PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
    if (::ptrace(PTRACE_SEIZE, process_, nullptr, follow) == 0) return;
    const int code = errno;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    throw SystemError(fmt::format("ptrace is refused: {}", std::generic_category().message(code)));
  }

  /// Until the last thread of the last process has ended.
  Outcome follow() {
    while (true) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL | __WNOTHREAD);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) return std::move(outcome_);
      if (!WIFSTOPPED(status)) {
        if (thread == process_) outcome_.code = code_of(status);
        leaving_.erase(thread);
        continue;
      }
      stopped(thread, status);
    }
  }

 private:
  void stopped(pid_t thread, int status) {
    const int event = status >> 16, signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_SECCOMP) return enter(thread);
    if (signal == (SIGTRAP | 0x80)) return leave(thread);
    resume(thread, event != 0 ? 0 : signal);
  }

  static void resume(pid_t thread, int signal = 0) { ::ptrace(PTRACE_CONT, thread, nullptr, signal); }

  // The thread stands before a call.
  void enter(pid_t thread) {
    AtCall at(thread);
    const CallKind* kind = find_kind(at.number());
    if (kind == nullptr) return resume(thread);
    Call call = at.describe(*kind);
    const bool counts = call.path.empty() ? kind->number == SYS_io_uring_enter : concerns(call);
    if (!counts) return resume(thread);
    const int refused = options_.refused ? options_.refused(call) : 0;
    outcome_.calls.push_back(std::move(call));
    const bool strikes = options_.fault.at > 0 && outcome_.struck == 0 && outcome_.calls.size() >= options_.fault.at &&
                         can_have(options_.fault, outcome_.calls.back());
    if (strikes) outcome_.struck = outcome_.calls.size();
    if (strikes && options_.fault.act == Act::kill) {
      ::kill(-process_, SIGKILL);
      return;
    }
    const bool fails = strikes && options_.fault.act == Act::fail;
    const int error = fails ? options_.fault.error : refused;
    if (strikes && options_.fault.act == Act::shorten) at.set_argument(kind->length, shortened(outcome_.calls.back().length));
    // A close() that fails has closed nevertheless, as on Linux.
    const bool afterwards = error != 0 && kind->number == SYS_close;
    if (error != 0 && !afterwards) {
      at.refuse(error);
      outcome_.calls.back().result = -error;
      return resume(thread);
    }
    if (!afterwards && !options_.records) return resume(thread);
    leaving_[thread] = {outcome_.calls.size() - 1, afterwards ? error : 0};
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, 0);
  }

  // The thread stands behind a call.
  void leave(pid_t thread) {
    const auto found = leaving_.find(thread);
    if (found != leaving_.end()) {
      AtCall at(thread);
      if (found->second.error != 0) at.set_result(-found->second.error);
      if (options_.records) record(at, outcome_.calls[found->second.call]);
      leaving_.erase(found);
    }
    resume(thread);
  }

  static void record(const AtCall& at, Call& call) {
    call.result = at.result();
    std::error_code unknown;
    call.folder = std::filesystem::is_directory(call.path, unknown);
    if (call.result >= 0 && call.kind->changes_data) call.content = at.content(call);
  }

  bool concerns(const Call& call) const {
    return is_below(call.path, options_.folder) || (!call.to.empty() && is_below(call.to, options_.folder));
  }

  static std::uint64_t shortened(std::uint64_t length) { return length > 1 ? length / 2 : length; }

  struct Leaving {
    std::size_t call;
    int error;
  };

  pid_t process_;
  const TraceOptions& options_;
  Outcome outcome_;
  std::map<pid_t, Leaving> leaving_;  // threads in a call whose end matters
};

}  // namespace

std::string Fault::text() const {
  if (act == Act::kill) return "kill";
  return act == Act::shorten ? "short" : ::strerrorname_np(error);
}

bool can_have(const Fault& fault, const Call& call) {
  if (fault.act == Act::kill) return true;
  if (fault.act == Act::shorten) return call.kind->changes_data && call.kind->length >= 0 && call.length > 1;
  return std::find(call.kind->errors.begin(), call.kind->errors.end(), fault.error) != call.kind->errors.end();
}

Outcome trace(const Body& body, const TraceOptions& options) {
  Started started(body, true);
  Tracing tracing(started.process(), options);
  tracing.attach();
  try {
    Limit limit(started.process(), options.limit_seconds);
    started.go();
    Outcome outcome = tracing.follow();
    outcome.too_long = limit.end();
    return outcome;
  } catch (...) {
    ::kill(-started.process(), SIGKILL);
    tracing.follow();
    throw;
  }
}

Outcome run(const Body& body, double limit_seconds) {
  Started started(body, false);
  Limit limit(started.process(), limit_seconds);
  started.go();
  Outcome outcome;
  int status = 0;
  while (::waitpid(started.process(), &status, 0) < 0 && errno == EINTR) {
  }
  outcome.code = code_of(status);
  outcome.too_long = limit.end();
  return outcome;
}

std::string why_not_traced() {
  try {
    const Path folder = std::filesystem::temp_directory_path();
    const auto body = [&] { return ::close(::open(folder.c_str(), O_RDONLY | O_CLOEXEC)) == 0 ? 0 : 1; };
    const Outcome outcome = trace(body, {.folder = folder, .fault = {}});
    if (outcome.code == 0 && outcome.calls.size() == 2) return "";
    return fmt::format("a traced process ended with {} after {} calls", outcome.code, outcome.calls.size());
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace lockstep::faults
