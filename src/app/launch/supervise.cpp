#include "app/launch/supervise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/timer.h"

namespace lockstep::launch {
namespace {

constexpr int kTimedOut = 124;
constexpr int kBadInput = 2, kDiverged = 3;  // which stay so

[[noreturn]] void fail(std::string_view call, int code) { throw SystemError(fmt::format("{}: {}", call, std::strerror(code))); }

/// A pipe that the child writes to and this program copies to `target`.
class Channel {
 public:
  explicit Channel(int target) : target_(target) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2", errno);
    read_ = ends[0];
    write_ = ends[1];
    fcntl(read_, F_SETFL, O_NONBLOCK);
  }
  ~Channel() {
    close_end(read_);
    close_end(write_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int target() const { return target_; }
  int read_end() const { return read_; }  // -1 behind the end
  int write_end() const { return write_; }
  void started() { close_end(write_); }

  /// Copies what is there; returns whether there was anything.
  bool copy() {
    bool any = false;
    std::array<char, 65536> buffer;
    while (read_ >= 0) {
      const ssize_t n = read(read_, buffer.data(), buffer.size());
      if (n < 0) break;  // nothing more for now
      if (n == 0) close_end(read_);
      for (ssize_t done = 0; done < n;) {
        const ssize_t written = write(target_, buffer.data() + done, static_cast<std::size_t>(n - done));
        if (written < 0 && errno != EINTR && errno != EAGAIN) return any;  // the reader has closed its end
        done += std::max<ssize_t>(written, 0);
      }
      any = any || n > 0;
    }
    return any;
  }

 private:
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
  int target_, read_ = -1, write_ = -1;
};

using Channels = std::vector<std::unique_ptr<Channel>>;

Channels open_channels() {
  Channels channels;
  for (const int target : {STDOUT_FILENO, STDERR_FILENO}) channels.push_back(std::make_unique<Channel>(target));
  return channels;
}

bool copy_all(const Channels& channels) {
  bool any = false;
  for (const auto& channel : channels) any = channel->copy() || any;
  return any;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_of(const Process& process) {
  std::vector<std::string> out;
  out.reserve(process.environment.size());
  for (const auto& [name, value] : process.environment) out.push_back(fmt::format("{}={}", name, value));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto is_it = [&](const auto& pair) { return text.starts_with(pair.first + "="); };
    if (std::none_of(process.environment.begin(), process.environment.end(), is_it)) out.push_back(text);
  }
  return out;
}

pid_t spawn(const Process& process, const Channels& channels, const sigset_t& mask) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const auto& channel : channels) posix_spawn_file_actions_adddup2(&actions, channel->write_end(), channel->target());
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words = process.words;
  std::vector<std::string> variables = environment_of(process);
  pid_t child = 0;
  const int code =
      posix_spawnp(&child, words[0].c_str(), &actions, &attributes, pointers(words).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) {
    throw UserError(fmt::format("{} cannot be run: {}", words[0], std::strerror(code)),
                    "install it, or add its folder to PATH (on a cluster: load its module)");
  }
  return child;
}

/// Whether the child has ended; it stays a zombie, so that its group's number is not given away.
bool ended(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

int exit_code(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string failure_text(const Outcome& outcome) {
  if (outcome.timed_out) return fmt::format("the job said nothing for too long and was ended (exit code {})", outcome.code);
  if (outcome.interrupted) return fmt::format("the job was interrupted (exit code {})", outcome.code);
  return fmt::format("the job failed (exit code {})", outcome.code);
}

}  // namespace

struct Supervisor::State {
  sigset_t before{};
  int signals = -1;

  State() {
    std::signal(SIGCHLD, SIG_DFL);  // ignored, it would take exit codes away
    sigset_t ours;
    sigemptyset(&ours);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) sigaddset(&ours, signal);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      fail("signalfd", errno);
    }
  }
  ~State() {
    close(signals);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// The next signal for the process (the end of a child is none); 0 when there is none.
  int next() const {
    signalfd_siginfo info{};
    while (read(signals, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    }
    return 0;
  }

  /// Returns when a signal came, a channel has something or `until` is reached.
  void wait(const Channels& channels, std::optional<double> until) const {
    std::vector<pollfd> watched{{signals, POLLIN, 0}};
    for (const auto& channel : channels) watched.push_back({channel->read_end(), POLLIN, 0});
    const double seconds = until ? std::clamp(*until - now_seconds(), 0.0, 3600.0) : 0;
    poll(watched.data(), watched.size(), until ? static_cast<int>(std::ceil(seconds * 1000)) : -1);
  }
};

Supervisor::Supervisor(Watch watch) : watch_(watch), state_(std::make_unique<State>()) {}
Supervisor::~Supervisor() = default;

void Supervisor::pass_signals_on(int child, Outcome& outcome) {
  for (int signal = 0; (signal = state_->next()) != 0;) {
    const bool replaced = !outcome.interrupted && signal != SIGUSR1 && watch_.stop_signal != 0;
    kill(child, replaced ? watch_.stop_signal : signal);
    outcome.interrupted = true;
  }
}

Outcome Supervisor::run(const Process& process) {
  const bool watched = watch_.timeout > 0;
  const Channels channels = watched ? open_channels() : Channels{};
  const pid_t child = spawn(process, channels, state_->before);
  for (const auto& channel : channels) channel->started();
  Outcome outcome;
  std::optional<double> deadline;  // of its silence; behind the SIGTERM: of its life
  if (watched) deadline = now_seconds() + watch_.timeout;
  while (!ended(child)) {
    state_->wait(channels, deadline);
    if (copy_all(channels) && !outcome.timed_out) deadline = now_seconds() + watch_.timeout;
    pass_signals_on(child, outcome);
    if (!deadline || now_seconds() < *deadline || ended(child)) continue;
    if (outcome.timed_out) {
      kill(-child, SIGKILL);
      deadline.reset();
    } else {
      kill(child, SIGTERM);
      deadline = now_seconds() + watch_.grace;
      outcome.timed_out = true;
    }
  }
  kill(-child, SIGKILL);
  copy_all(channels);
  const int code = exit_code(child);
  outcome.code = outcome.timed_out ? kTimedOut : code;
  return outcome;
}

int Supervisor::pause(double seconds) {
  const double end = now_seconds() + seconds;
  while (now_seconds() < end) {
    state_->wait({}, end);
    if (const int signal = state_->next()) return signal;
  }
  return 0;
}

int run_with_retries(Supervisor& supervisor, const Retries& retries, const std::function<Process(int attempt)>& process,
                     const std::function<void(const std::string&)>& say) {
  for (int attempt = 0;; ++attempt) {
    const Outcome outcome = supervisor.run(process(attempt));
    if (outcome.code == 0) return 0;
    const bool last = outcome.interrupted || outcome.code == kBadInput || outcome.code == kDiverged || attempt == retries.count;
    if (last) {
      say(failure_text(outcome));
      return outcome.code;
    }
    const double pause = retries.pauses[std::min(static_cast<std::size_t>(attempt), retries.pauses.size() - 1)];
    say(fmt::format("{}; retry {} of {} in {:g} s", failure_text(outcome), attempt + 1, retries.count, pause));
    if (const int signal = supervisor.pause(pause)) return 128 + signal;
  }
}

}  // namespace lockstep::launch
