#pragma once

// Runs a process of its own group to its end. It passes signals on, ends a process that says nothing for too long, and starts one
// again that fails.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::launch {

struct Process {
  std::vector<std::string> words;                                // the program (looked for in PATH) and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of this program's
  std::string rank_program = {};                                 // what a launcher starts as ranks; empty: `words` are the rank
};

struct Watch {
  double timeout = 0;   // seconds without output after which the process is ended; 0: never
  double grace = 10;    // seconds from the SIGTERM that ends it to the SIGKILL
  double leaving = 20;  // seconds that a launcher may live on after the last rank of this host; mpirun waits for ever for a host
                        // that is cut off
  int stop_signal = 0;  // sent in place of the first SIGINT, SIGTERM or SIGHUP; 0: the same
};

struct Outcome {
  int code = 0;              // the exit code; 128 + the signal that killed it; 124 when it was ended for its silence
  bool interrupted = false;  // a signal was passed on to it: a person or the scheduler wants it to stop
  int replaced = 0;          // the SIGINT or SIGTERM in whose place it got another signal
  bool timed_out = false;    // it was ended for its silence
  bool left_over = false;    // the launcher was ended (exit code 1): it waited for other hosts after the ranks of this one
};

/// While it lives, SIGINT, SIGTERM, SIGHUP (unless it is ignored) and SIGUSR1 are for the processes it runs. One at a time; used
/// by the thread that made it.
class Supervisor {
 public:
  explicit Supervisor(Watch watch);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Output goes where this program's goes, for as long as it has a reader; input is empty. What is left of its processes on
  /// this host when it has ended is killed. When this program is killed, the process gets a SIGTERM. Throws UserError when the
  /// program cannot be run.
  Outcome run(const Process& process);
  /// Sleeps; returns the signal that ended the sleep early, or 0.
  int pause(double seconds);

 private:
  void pass_signals_on(int child, Outcome& outcome);

  Watch watch_;
  struct State;
  std::unique_ptr<State> state_;
};

struct Retries {
  int count = 0;
  std::vector<double> pauses{0, 1, 2, 5, 10, 20, 40, 60};  // seconds before each retry; the last one holds for all further ones
  std::function<std::int64_t()> progress = {};             // how far the job is; an attempt that got further resets the pauses
};

/// Runs `process(0)`, and while it fails `process(1)` ... `process(retries.count)`. Returns the last exit code. An interrupted
/// attempt is not tried again, nor are exit codes 130 and 143. Nor are 2 (bad input) and 3 (a training that diverged), which
/// would come again. `say` is told how each attempt failed.
int run_with_retries(Supervisor& supervisor, const Retries& retries, const std::function<Process(int attempt)>& process,
                     const std::function<void(const std::string&)>& say);

}  // namespace lockstep::launch
