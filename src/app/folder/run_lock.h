#pragma once

// The lock of a run's folder, or a sweep's: one at a time writes into it. Readers (generate, eval, inspect) need none.
//
// The lock is flock() on `run.lock`, which the system gives back when the process ends. Where the file system has no such locks,
// the file itself is the lock. It names host, process and time, and its owner renews it. One that was not renewed for long is
// taken over.

#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "io/file.h"

namespace lockstep::app {

/// flock() for this process alone, without waiting: 0, or -1 and errno.
int take_flock(int descriptor);

/// What a lock asks of the system; tests answer otherwise.
struct LockSystem {
  std::function<int(int descriptor)> lock = take_flock;
  std::function<std::int64_t()> now = [] { return static_cast<std::int64_t>(std::time(nullptr)); };  ///< seconds since 1970
  double renewed_every = 30;                                                                         ///< seconds
  std::int64_t dead_after = 120;  ///< seconds without a renewal
};

/// Who writes into a folder, and what a refusal advises.
struct LockKind {
  std::string_view file = "run.lock", owner = "run", remedy = "wait for it or stop it, or choose another log.dir or log.name";
};

class RunLock {
 public:
  /// Makes the folder where there is none. Throws UserError that names the owner when another run has the lock.
  explicit RunLock(io::Path folder, LockSystem system = {}, const LockKind& kind = {});
  /// Gives the lock back. A folder that was made here and holds nothing else vanishes too.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// What to warn about: a lock was taken over that a run has left behind. Empty: nothing.
  const std::string& warning() const { return warning_; }
  /// What tells its holder from every other one, for demand_lock().
  static std::string mark();
  /// Throws UserError when another run took the lock over, because this one did not renew it for too long. A lock that was
  /// deleted is taken again; returns what to warn about then.
  std::string demand();

 private:
  void acquire();
  bool try_acquire();
  bool ours() const;
  void write_record();
  /// Removes the file, and with it a folder that was made for it; another run's file stays.
  void give_back();
  void renew(const std::stop_token& stop);
  void stop_renewal();

  [[noreturn]] void refuse() const;

  LockKind kind_;
  io::Path folder_, path_;
  LockSystem system_;
  std::string warning_;
  bool made_folder_ = false;
  int descriptor_ = -1;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread renewal_;  // only where the file itself is the lock
};

/// Whether a run writes into the folder, as far as its lock tells: the process that it names has not ended on this host.
bool is_written(const io::Path& folder);

/// Throws UserError unless this rank sees in the folder the lock with `mark`, which rank 0 holds there. It looks for so many
/// `seconds`, because file systems of clusters may show a new file late.
void demand_lock(const io::Path& folder, const std::string& mark, double seconds);

}  // namespace lockstep::app
