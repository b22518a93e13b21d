#include "app/launch/supervise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>

#include "app/cli/command.h"
#include "app/launch/children.h"
#include "base/error.h"
#include "base/timer.h"

namespace lockstep::launch {
namespace {

constexpr int kTimedOut = 124, kLeftOver = 1;
// Exit codes after which no retry helps: the same input, the same divergence, or a person who wanted the end.
constexpr std::array kFinal{app::kUserError, app::kDiverged, app::kInterrupted, app::kTerminated};

[[noreturn]] void fail(std::string_view call, int code) { throw SystemError(fmt::format("{}: {}", call, std::strerror(code))); }

/// A pipe that the child writes to and this program copies to `target`. A reader of `target` who is slow holds up the child, not
/// this program; what one who has gone would have read is dropped.
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
  int write_end() const { return write_; }
  void started() { close_end(write_); }
  /// What has to happen before copy() can do more.
  pollfd awaited() const { return waits() ? pollfd{target_, POLLOUT, 0} : pollfd{read_, POLLIN, 0}; }

  /// Copies what is there and the reader takes; returns whether there was anything, or something waits for the reader.
  bool copy() {
    bool any = false;
    while (pass_on() && read_ >= 0) {
      const ssize_t n = read(read_, buffer_.data(), buffer_.size());
      if (n < 0) break;  // nothing more for now
      if (n == 0) close_end(read_);
      any = any || n > 0;
      begin_ = 0;
      end_ = static_cast<std::size_t>(n);
    }
    return any || waits();
  }
  /// Copies what is left, as long as the reader takes something every `seconds`.
  void drain(double seconds) {
    for (copy(); waits(); copy()) {
      pollfd reader = awaited();
      if (poll(&reader, 1, static_cast<int>(seconds * 1000)) == 0) return;
    }
  }

 private:
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
  bool waits() const { return begin_ < end_; }
  bool pass_on() {
    while (waits()) {
      pollfd reader{target_, POLLOUT, 0};
      if (poll(&reader, 1, 0) == 0) return false;
      const ssize_t n = write(target_, buffer_.data() + begin_, std::min<std::size_t>(end_ - begin_, PIPE_BUF));
      if (n < 0 && errno == EAGAIN) return false;
      if (n >= 0 || errno != EINTR) begin_ = n < 0 ? end_ : begin_ + static_cast<std::size_t>(n);
    }
    return true;
  }
  int target_, read_ = -1, write_ = -1;  // read_: -1 behind the end
  std::array<char, 65536> buffer_{};
  std::size_t begin_ = 0, end_ = 0;  // of what waits for the reader
};

using Channels = std::vector<std::unique_ptr<Channel>>;

/// A pipe's reader may go, and a closed output takes nothing: what is started here might end of it.
bool may_refuse(int stream) {
  struct stat status{};
  const bool has_reader = fstat(stream, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
  return has_reader || (fcntl(stream, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

Channels open_channels(bool watched) {
  Channels channels;
  for (const int target : {STDOUT_FILENO, STDERR_FILENO}) {
    if (watched || may_refuse(target)) channels.push_back(std::make_unique<Channel>(target));
  }
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

/// What the child of fork() becomes. Only what is safe between fork and exec; returns when it cannot.
struct Program {
  const Channels& channels;
  const sigset_t& mask;
  char* const* words;
  char* const* variables;
  pid_t parent;

  void become() const {
    setpgid(0, 0);
    // A launch that is killed takes its job along: mpirun and srun end their ranks, a training saves and leaves.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(128 + SIGTERM);
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return;
    for (const auto& channel : channels) {
      if (dup2(channel->write_end(), channel->target()) < 0) return;
    }
    for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    execvpe(words[0], words, variables);
  }
};

pid_t spawn(const Process& process, const Channels& channels, const sigset_t& mask) {
  std::vector<std::string> words = process.words, variables = environment_of(process);
  const std::vector<char*> word_pointers = pointers(words), variable_pointers = pointers(variables);
  const Program program{channels, mask, word_pointers.data(), variable_pointers.data(), getpid()};
  std::array<int, 2> report{};  // closed by exec, or told why there was none
  if (pipe2(report.data(), O_CLOEXEC) != 0) fail("pipe2", errno);
  const pid_t child = fork();
  if (child == 0) {
    program.become();
    const int code = errno;
    _exit(write(report[1], &code, sizeof code) == sizeof code ? 127 : 126);
  }
  const int fork_error = errno;
  close(report[1]);
  int code = 0;
  const bool failed = child < 0 || read(report[0], &code, sizeof code) == sizeof code;
  close(report[0]);
  if (child < 0) fail("fork", fork_error);
  if (failed) {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
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

/// Looks every second whether a launcher still has ranks on this host, where they are its children (srun's are not).
class RankWatch {
 public:
  RankWatch(pid_t launcher, const std::string& program) : launcher_(launcher), program_(program), next_(now_seconds()) {}

  /// When look() wants to be called again; none: never.
  std::optional<double> next() const { return program_.empty() ? std::nullopt : std::optional(next_); }
  void look() {
    const double now = now_seconds();
    if (program_.empty() || now < next_) return;
    next_ = now + 1;
    const bool any = has_ranks();
    seen_ = seen_ || any;
    if (any) last_ = now;
  }
  /// Seconds since the last rank was there; 0: there is one, or there was none yet.
  double without_ranks() const { return seen_ ? std::max(0.0, next_ - 1 - last_) : 0; }

 private:
  bool has_ranks() const {
    return std::ranges::any_of(children_of(launcher_), [&](pid_t child) {
      std::error_code gone;
      return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", child), gone) == program_;
    });
  }

  pid_t launcher_;
  const std::string& program_;
  double next_, last_ = 0;
  bool seen_ = false;
};

std::optional<double> earlier(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::string failure_text(const Outcome& outcome) {
  if (outcome.left_over) {
    return fmt::format(
        "the ranks of this host have ended, but their launcher waited on for other hosts and was ended (exit code {})",
        outcome.code);
  }
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
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&ours, signal);
    struct sigaction hang_up{};
    sigaction(SIGHUP, nullptr, &hang_up);
    if (hang_up.sa_handler != SIG_IGN) sigaddset(&ours, SIGHUP);  // nohup: the job goes on
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
    for (const auto& channel : channels) watched.push_back(channel->awaited());
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
    if (replaced && signal != SIGHUP) outcome.replaced = signal;
    outcome.interrupted = true;
  }
}

Outcome Supervisor::run(const Process& process) {
  const bool watched = watch_.timeout > 0;
  const Channels channels = open_channels(watched);
  const Orphans orphans;
  const pid_t child = spawn(process, channels, state_->before);
  for (const auto& channel : channels) channel->started();
  Outcome outcome;
  std::optional<double> deadline;  // of its silence; behind the SIGTERM: of its life
  if (watched) deadline = now_seconds() + watch_.timeout;
  RankWatch ranks(child, process.rank_program);
  while (!ended(child)) {
    state_->wait(channels, earlier(deadline, ranks.next()));
    if (copy_all(channels) && watched && !outcome.timed_out) deadline = now_seconds() + watch_.timeout;
    pass_signals_on(child, outcome);
    ranks.look();
    if (ranks.without_ranks() > watch_.leaving && !ended(child)) {
      kill(-child, SIGKILL);
      outcome.left_over = true;
      break;
    }
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
  for (const auto& channel : channels) channel->drain(watch_.grace);
  const int code = exit_code(child);
  outcome.code = outcome.timed_out ? kTimedOut : outcome.left_over ? kLeftOver : code;
  // The ranks have not seen the signal: they end as after the other one.
  if (outcome.code == 0 && outcome.replaced != 0) outcome.code = 128 + outcome.replaced;
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
  const auto reached = [&retries] { return retries.progress ? retries.progress() : 0; };
  std::size_t in_a_row = 0;           // attempts that got no further
  std::int64_t furthest = reached();  // by any of them
  for (int attempt = 0;; ++attempt) {
    const Outcome outcome = supervisor.run(process(attempt));
    if (outcome.code == 0) return 0;
    const bool last = outcome.interrupted || std::ranges::find(kFinal, outcome.code) != kFinal.end() || attempt == retries.count;
    if (last) {
      say(failure_text(outcome));
      return outcome.code;
    }
    if (const std::int64_t now = reached(); now > furthest) {
      in_a_row = 0;
      furthest = now;
    }
    const double pause = retries.pauses[std::min(in_a_row++, retries.pauses.size() - 1)];
    const std::string when = pause > 0 ? fmt::format("in {:g} s", pause) : "at once";
    say(fmt::format("{}; retry {} of {} {}", failure_text(outcome), attempt + 1, retries.count, when));
    if (const int signal = supervisor.pause(pause)) return 128 + signal;
  }
}

}  // namespace lockstep::launch
