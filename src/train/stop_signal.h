#pragma once

// Reasons to stop or to save between two steps: signals, switch files, the clock. Nothing is interrupted: the loop asks.

#include <optional>
#include <string>

namespace lockstep::train {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 are remembered instead of ending the program; a second SIGINT ends it. One at
/// a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// "SIGTERM", once one came.
  std::optional<std::string> received() const;
};

/// What a loop may be told from outside.
struct SwitchOptions {
  std::optional<std::string> kill_file;  ///< while it exists: save and leave
  std::optional<std::string> save_file;  ///< when it appears: save, delete it, go on
  std::optional<double> max_minutes;     ///< since `started`
};

class Switches {
 public:
  /// `started`: now_seconds() of the program's start.
  Switches(SwitchOptions options, double started) : options_(std::move(options)), started_(started) {}
  /// Why to save and leave now, in words; empty to go on.
  std::optional<std::string> stop_reason() const;
  /// Whether a save was asked for; the request is taken back (the file deleted).
  bool take_save_request() const;

 private:
  SwitchOptions options_;
  double started_;
  StopSignal signal_;
};

}  // namespace lockstep::train
