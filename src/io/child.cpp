#include "io/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/timer.h"
#include "io/interrupted.h"

namespace lockstep::io {
namespace {

constexpr double mercy = 1;       // seconds for a killed program to end
constexpr int not_started = 127;  // what a shell says of a program that it cannot start

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw SystemError(fmt::format("pipe: {}", std::generic_category().message(errno)));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }  // -1 behind the end
  int write_end() const { return ends_[1]; }
  void close_end(std::size_t which) {
    if (ends_[which] >= 0) ::close(std::exchange(ends_[which], -1));
  }
  // Once there is something.
  void read_some(const std::function<void(std::string_view)>& take) {
    std::array<char, 65536> block;
    const ssize_t count = ::read(ends_[0], block.data(), block.size());
    if (count > 0) take({block.data(), static_cast<std::size_t>(count)});
    if (count == 0 || (count < 0 && errno != EINTR)) close_end(0);
  }
  // As much as a pipe holds; a reader that is gone needs none of it.
  void write_all(std::string_view text) {
    ensure(text.size() <= 65536, "a child's input fits into a pipe");
    while (!text.empty()) {
      const ssize_t count = uninterrupted([&] { return ::write(ends_[1], text.data(), text.size()); });
      if (count < 0) break;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    close_end(1);
  }

 private:
  std::array<int, 2> ends_{};
};

int start(const std::vector<std::string>& words, const Pipe& in, const Pipe& out, const Pipe& err, pid_t& child) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, in.read_end(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write_end(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end(), STDERR_FILENO);
  sigset_t usual;
  sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&usual, signal);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  const int code = ::posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return code;
}

// Reads both until they end; false when that takes too long.
bool read_both(Pipe& out, Pipe& err, double end, const ChildStreams& streams, ChildOutcome& outcome) {
  const auto collect = [](std::string& text) { return [&text](std::string_view piece) { text += piece; }; };
  const auto take_out = streams.out ? streams.out : collect(outcome.out);
  while (out.read_end() >= 0 || err.read_end() >= 0) {
    const double left = end - now_seconds();
    if (left <= 0) return false;
    std::array<pollfd, 2> watched{{{out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), static_cast<int>(std::ceil(std::min(left, 3600.0) * 1000))) <= 0) continue;
    if (watched[0].revents != 0) out.read_some(take_out);
    if (watched[1].revents != 0) err.read_some(collect(outcome.err));
  }
  return true;
}

// False when it has not ended by then. `status` stays as it was where this process is not told how (SIGCHLD is ignored).
bool await(pid_t child, double end, int& status) {
  for (;;) {
    const pid_t found = ::waitpid(child, &status, WNOHANG);
    if (found == child || (found < 0 && errno != EINTR)) return true;
    if (now_seconds() > end) return false;
    const timespec nap{0, 1'000'000};
    ::nanosleep(&nap, nullptr);
  }
}

}  // namespace

ChildOutcome run_child(const std::vector<std::string>& words, double seconds, const ChildStreams& streams) {
  Pipe in, out, err;
  ChildOutcome outcome;
  pid_t child = 0;
  outcome.start_error = start(words, in, out, err, child);
  if (outcome.start_error != 0) {
    outcome.status = not_started;
    return outcome;
  }
  for (Pipe* pipe : {&out, &err}) pipe->close_end(1);
  const double end = now_seconds() + seconds;
  int status = SIGKILL;  // of a child that is left behind, or of whose end nothing is told
  const auto kill = [&] {
    ::kill(-child, SIGKILL);
    await(child, now_seconds() + mercy, status);
  };
  try {
    in.write_all(streams.input);
    outcome.timed_out = !read_both(out, err, end, streams, outcome) || !await(child, end, status);
  } catch (...) {
    kill();
    throw;
  }
  if (outcome.timed_out) kill();
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace lockstep::io
