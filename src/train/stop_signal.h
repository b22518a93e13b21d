#pragma once

// Reasons to stop or to save between two steps: signals, switch files, the clock. The loop asks for them; nothing is interrupted.

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::train {

/// While this lives, SIGINT, SIGTERM, SIGUSR1 and SIGHUP are remembered instead of ending the program. A second SIGINT ends it. A
/// SIGHUP that was ignored before (nohup) stays ignored. Where an exception ends the object's life, the signals stay remembered.
/// One object at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// The signal's number, once one came.
  std::optional<int> received() const;

 private:
  bool hangs_up_;  // whether a SIGHUP counts
};

/// What a loop may be told from outside.
struct SwitchOptions {
  std::optional<std::string> kill_file;  ///< when it appears: save, delete it and leave
  std::optional<std::string> save_file;  ///< when it appears: save, delete it, go on
  std::optional<double> max_minutes;     ///< since `started`
};

/// Why to save and leave; for `diverged` and `folder_gone`, to leave without a save. Where ranks differ, the larger cause wins.
enum class StopCause : std::uint8_t { none, max_minutes, kill_file, sighup, sigusr1, sigterm, sigint, diverged, folder_gone };

/// "SIGTERM received", "the kill file F appeared".
std::string describe(StopCause cause, const SwitchOptions& options);

class Switches {
 public:
  /// `started`: now_seconds() of the program's start.
  Switches(SwitchOptions options, double started) : options_(std::move(options)), started_(started) {}
  StopCause stop_cause() const;
  /// Takes the request of the kill file back, so that the run can go on when it is started again. Returns what keeps the file
  /// from being deleted; empty: nothing.
  std::string take_kill_request() const;
  /// Whether a save was asked for. Takes the request back (deletes the file).
  bool take_save_request() const;

 private:
  SwitchOptions options_;
  double started_;
  StopSignal signal_;
};

}  // namespace lockstep::train
