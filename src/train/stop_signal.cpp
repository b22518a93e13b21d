#include "train/stop_signal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <exception>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/timer.h"

namespace lockstep::train {
namespace {

/// This is the one place that needs a variable for the whole program. The handler may run in another thread than asks.
std::atomic<int> pending = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<int>::is_always_lock_free, "a handler may use no other one");

extern "C" void remember(int signal) {
  if (pending == SIGINT && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  pending = signal;
}

/// 0 when the file is gone, else the errno: a folder stays, an empty one too.
int delete_file(const std::string& path) { return ::unlink(path.c_str()) == 0 || errno == ENOENT ? 0 : errno; }

}  // namespace

StopSignal::StopSignal() {
  pending = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, remember);
  hangs_up_ = std::signal(SIGHUP, remember) != SIG_IGN;
  if (!hangs_up_) std::signal(SIGHUP, SIG_IGN);
}

StopSignal::~StopSignal() {
  if (std::uncaught_exceptions() > 0) return;  // a signal would end the program before it says why it ends
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, SIG_DFL);
  if (hangs_up_) std::signal(SIGHUP, SIG_DFL);
}

std::optional<int> StopSignal::received() const {
  const int signal = pending;
  return signal == 0 ? std::nullopt : std::optional<int>(signal);
}

std::string describe(StopCause cause, const SwitchOptions& options) {
  switch (cause) {
    case StopCause::sigint:
      return "SIGINT received";
    case StopCause::sigterm:
      return "SIGTERM received";
    case StopCause::sighup:
      return "SIGHUP received";
    case StopCause::sigusr1:
      return "SIGUSR1 received";
    case StopCause::kill_file:
      return fmt::format("the kill file {} appeared", options.kill_file.value_or(""));
    case StopCause::max_minutes:
      return fmt::format("train.max_minutes = {} is over", options.max_minutes.value_or(0));
    case StopCause::diverged:
      return "the run has diverged";
    case StopCause::folder_gone:
      return "the run's folder is gone";
    case StopCause::none:
      return {};
  }
  return {};
}

StopCause Switches::stop_cause() const {
  if (const std::optional<int> signal = signal_.received()) {
    switch (*signal) {
      case SIGINT:
        return StopCause::sigint;
      case SIGTERM:
        return StopCause::sigterm;
      case SIGHUP:
        return StopCause::sighup;
      default:
        return StopCause::sigusr1;
    }
  }
  std::error_code ignored;
  if (options_.kill_file && std::filesystem::exists(*options_.kill_file, ignored)) return StopCause::kill_file;
  if (options_.max_minutes && now_seconds() - started_ > *options_.max_minutes * 60) return StopCause::max_minutes;
  return StopCause::none;
}

std::string Switches::take_kill_request() const {
  const int code = options_.kill_file ? delete_file(*options_.kill_file) : 0;
  if (code == 0) return {};
  return fmt::format("the kill file {} cannot be deleted ({}): delete it before the run is started again", *options_.kill_file,
                     std::generic_category().message(code));
}

bool Switches::take_save_request() const {
  std::error_code ignored;
  if (!options_.save_file || !std::filesystem::exists(*options_.save_file, ignored)) return false;
  if (const int code = delete_file(*options_.save_file)) {
    throw UserError(
        fmt::format("the save file {} cannot be deleted: {}", *options_.save_file, std::generic_category().message(code)),
        "make its folder writable, or choose another train.save_file");
  }
  return true;
}

}  // namespace lockstep::train
