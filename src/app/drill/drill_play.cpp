#include "app/drill/drill_play.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "app/cli/command.h"
#include "app/demo/demo_training.h"
#include "base/error.h"
#include "base/timer.h"
#include "checkpoint/find.h"
#include "io/appended_file.h"
#include "io/new_folder.h"
#include "train/report/logged_step.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

/// Becomes this program with these words, and speaks into `output`.
[[noreturn]] void become(std::vector<std::string> words, const std::string& drill, int output) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
    _exit(kSystemError);
  drill.empty() ? unsetenv(train::DrillFault::variable) : setenv(train::DrillFault::variable, drill.c_str(), 1);
  words.insert(words.begin(), "lockstep");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  _exit(kSystemError);
}

/// A process of this program, whose lines are read. A signal to this one ends that one too.
class Job {
 public:
  Job(const std::vector<std::string>& words, const std::string& drill) {
    std::array<int, 2> ends{};
    std::fflush(nullptr);
    if (pipe2(ends.data(), O_CLOEXEC) == 0) child_ = fork();
    if (child_ < 0) throw SystemError(fmt::format("cannot start a copy: {}", std::strerror(errno)));
    if (child_ == 0) become(words, drill, ends[1]);
    close(ends[1]);
    output_ = ends[0];
  }
  ~Job() {
    if (!code_) kill(child_, SIGKILL);
    close(output_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Its exit code, once it has ended. Throws SystemError then where a signal came.
  std::optional<int> ended() {
    int status = 0;
    if (signal_.received() && !std::exchange(passed_on_, true)) kill(child_, SIGTERM);
    if (!code_ && waitpid(child_, &status, WNOHANG) == child_)
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code_ && passed_on_) throw SystemError("the drill was interrupted");
    return code_;
  }
  /// What it has said, within a few milliseconds.
  std::string said() const {
    constexpr int milliseconds = 5;
    std::array<char, 4096> bytes{};
    pollfd watched{output_, POLLIN, 0};
    if (poll(&watched, 1, milliseconds) <= 0 || (watched.revents & POLLIN) == 0) return {};
    const ssize_t count = read(output_, bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count))};
  }

 private:
  train::StopSignal signal_;
  bool passed_on_ = false;
  pid_t child_ = -1;
  int output_ = -1;
  std::optional<int> code_;
};

/// What a line says of a fault: an error of a rank, of mpirun or of launch, or a warning. Empty: nothing.
std::string complaint(const std::string& line) {
  for (const auto& [sign, skipped] : {std::pair<std::string_view, std::size_t>{"lockstep: ", 10},
                                      {"mpirun noticed that ", 0},
                                      {"lockstep launch: ", 9},
                                      {"warning: ", 9}}) {
    if (const std::size_t at = line.find(sign); at != std::string::npos) return line.substr(at + skipped);
  }
  return {};
}

/// Looks at a copy from outside.
class Watch {
 public:
  /// `step`: of the fault. `usual`: what says nothing of it.
  Watch(io::Path run, io::Path played, std::int64_t step, const std::set<std::string>& usual, DrillOutcome& outcome)
      : run_(std::move(run)),
        log_(run_.string() + ".log"),
        played_(std::move(played)),
        step_(step),
        usual_(usual),
        outcome_(outcome) {}

  void hear(const std::string& bytes) {
    if (bytes.empty()) return;
    log_.append(bytes);
    line_ += bytes;
    for (std::size_t end = 0; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1))
      judge(complaint(line_.substr(0, end)));
  }
  /// Returns the step that was done last.
  std::int64_t look() {
    if (!outcome_.played && io::exists(played_) && !std::filesystem::is_empty(played_)) {
      outcome_.played = true;
      fault_ = now_seconds();
    }
    const io::Path metrics = run_ / "metrics.jsonl";
    std::error_code none;
    if (const std::uintmax_t bytes = std::filesystem::file_size(metrics, none); none || bytes < read_.bytes)
      read_ = {};  // a run that begins anew keeps the old one under another name
    read_ = train::for_each_logged(
        metrics,
        [&](const Json& line) {
          if (!train::is_evaluation(line)) count(line);
        },
        read_);
    return last_;
  }

 private:
  void judge(const std::string& words) {
    if (words.empty() || usual_.contains(words)) return;
    outcome_.usual.insert(words);
    if (outcome_.last.empty() || !words.starts_with("launch: ")) outcome_.last = words;
    if (outcome_.found) return;
    outcome_.said = words;
    if (outcome_.played) outcome_.found = now_seconds() - fault_;
  }
  void count(const Json& line) {
    const std::int64_t step = line.at("step").integer();
    const Json* finite = line.find("finite");
    if (finite != nullptr && finite->is_bool() && !finite->boolean()) return;
    if (step <= most_) ++outcome_.repeated;
    if (step >= step_ && outcome_.played && !outcome_.goes_on) outcome_.goes_on = now_seconds() - fault_;
    last_ = step;
    most_ = std::max(most_, step);
  }

  io::Path run_;
  io::AppendedFile log_;
  io::Path played_;
  std::int64_t step_;
  const std::set<std::string>& usual_;
  DrillOutcome& outcome_;
  std::string line_;
  train::LinesRead read_;
  std::int64_t last_ = 0, most_ = 0;
  double fault_ = 0;
};

}  // namespace

DrillStage::DrillStage(const DrillCopy& copy, io::Path folder) : copy_(copy), folder_(std::move(folder)) {
  io::replace_file(folder_ / "drill.toml", to_toml(copy.config));
}

const DrillOutcome& DrillStage::undisturbed(const Told& told) {
  reference_ = play("undisturbed", nullptr, told);
  if (reference_.code != 0) {
    throw SystemError(fmt::format("the copy ended with exit code {} where nothing disturbed it: {}", reference_.code,
                                  reference_.last.empty() ? "it did not say why" : reference_.last));
  }
  return reference_;
}

DrillOutcome DrillStage::disturbed(const train::DrillFault& fault, const std::string& name, bool keeps, const Told& told) const {
  DrillOutcome outcome = play(name, &fault, told);
  if (!keeps) io::remove_folder(folder_ / name);
  return outcome;
}

std::vector<std::string> DrillStage::words(const io::Path& run) const {
  std::vector<std::string> all{"launch", "-n", std::to_string(copy_.ranks), "--oversubscribe", "--retries", "2"};
  if (!copy_.hostfile.empty()) all.insert(all.end(), {"--hostfile", copy_.hostfile});
  if (reference_.seconds > 0) {
    const double silence = copy_.config.comm.timeout + 20 + reference_.seconds;  // what no other rank notices, launch does
    all.insert(all.end(), {"--timeout", fmt::format("{:.0f}", std::ceil(silence))});
  }
  all.insert(all.end(), {"--", "train", "--config", (folder_ / "drill.toml").string(), "log.dir=" + run.string()});
  return all;
}

DrillOutcome DrillStage::play(const std::string& name, const train::DrillFault* fault, const Told& told) const {
  const io::Path run = folder_ / name, played = folder_ / (name + ".played");
  if (fault != nullptr) io::make_folder(played);
  DrillOutcome outcome;
  Watch watch(run, played, fault == nullptr ? 0 : fault->step, reference_.usual, outcome);
  const double begun = now_seconds();
  Job job(words(run), fault == nullptr ? "" : train::drill_text(*fault, played));
  std::optional<int> code;
  for (std::string heard; !code || !heard.empty();) {
    code = job.ended();
    watch.hear(heard = job.said());
    told(watch.look());
  }
  outcome.code = *code;
  outcome.seconds = now_seconds() - begun;
  outcome.saved = checkpoint::saved_step(run);
  if (outcome.code == 0) outcome.hash = demo_hash(run);
  return outcome;
}

}  // namespace lockstep::app
