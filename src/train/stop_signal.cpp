#include "train/stop_signal.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/timer.h"

namespace lockstep::train {
namespace {

/// A handler may only write to such a variable; this is the one place that needs one for the whole program.
volatile std::sig_atomic_t pending = 0;

extern "C" void remember(int signal) {
  if (pending == SIGINT && signal == SIGINT) std::signal(SIGINT, SIG_DFL);
  pending = signal;
}

}  // namespace

StopSignal::StopSignal() {
  pending = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, remember);
}

StopSignal::~StopSignal() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, SIG_DFL);
}

std::optional<std::string> StopSignal::received() const {
  switch (pending) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return std::nullopt;
  }
}

std::optional<std::string> Switches::stop_reason() const {
  if (const auto signal = signal_.received()) return *signal + " received";
  std::error_code ignored;
  if (options_.kill_file && std::filesystem::exists(*options_.kill_file, ignored)) {
    return fmt::format("the kill file {} exists", *options_.kill_file);
  }
  if (options_.max_minutes && now_seconds() - started_ > *options_.max_minutes * 60) {
    return fmt::format("train.max_minutes = {} is over", *options_.max_minutes);
  }
  return std::nullopt;
}

bool Switches::take_save_request() const {
  std::error_code error;
  if (!options_.save_file || !std::filesystem::exists(*options_.save_file, error)) return false;
  if (!std::filesystem::remove(*options_.save_file, error) && error) {
    throw UserError(fmt::format("the save file {} cannot be deleted: {}", *options_.save_file, error.message()),
                    "make its folder writable, or choose another train.save_file");
  }
  return true;
}

}  // namespace lockstep::train
