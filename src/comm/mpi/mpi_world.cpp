#include "comm/mpi/mpi_world.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/timer.h"
#include "comm/errors.h"
#include "comm/host/host_communicator.h"
#include "comm/host/staging.h"
#include "comm/mpi/library.h"
#include "comm/mpi/message_communicator.h"
#include "comm/mpi/process_memory.h"

namespace lockstep::comm {
namespace {

using Body = std::function<void(Communicator& world, const CoreSharing& sharing)>;

constexpr double patience = 5;         // seconds for the others to follow an error
constexpr double look_interval = 0.2;  // seconds between two looks at the others' processes

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

template <class T>
std::vector<T> from_all(const MpiLibrary& mpi, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(mpi.size()));
  mpi.all_gather(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(&mine, 1)));
  return all;
}

std::size_t lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// What all ranks of the host see from the start.
struct Control {
  struct Head {
    std::atomic<std::uint32_t> user_error;  // the error that ended the run is one that the user can mend
    std::atomic<std::uint32_t> lost;        // a process is no more
  };
  explicit Control(std::byte* memory, int ranks)
      : head(reinterpret_cast<Head*>(memory)),
        directories(reinterpret_cast<Directory*>(memory + directories_at()), static_cast<std::size_t>(ranks)),
        roll(memory + roll_at(ranks), ranks),
        board(memory + board_at(ranks), ranks) {}
  static std::size_t bytes(int ranks) { return board_at(ranks) + host::Board::bytes(ranks); }

  Head* head;
  std::span<Directory> directories;
  host::Roll roll;
  host::Board board;

 private:
  static std::size_t directories_at() { return lines(sizeof(Head)); }
  static std::size_t roll_at(int ranks) { return directories_at() + lines(static_cast<std::size_t>(ranks) * sizeof(Directory)); }
  static std::size_t board_at(int ranks) { return roll_at(ranks) + lines(host::Roll::bytes(ranks)); }
};

// Rank 0 makes the control block, the others map it; all of them succeed, or all throw.
Segment share_control(const MpiLibrary& mpi) {
  struct Where {
    int pid = 0;
    int descriptor = -1;
  } where;
  Segment segment;
  std::exception_ptr error;
  const std::size_t bytes = Control::bytes(mpi.size());
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const SystemError&) {
      error = std::current_exception();
    }
  };
  if (mpi.rank() == 0) {
    attempt([&] {
      segment = Segment::make(bytes);
      where = {getpid(), segment.descriptor()};
    });
  }
  mpi.broadcast(bytes_of(where));
  if (mpi.rank() != 0 && where.pid != 0) attempt([&] { segment = Segment::open(where.pid, where.descriptor, bytes); });
  const std::vector<std::int32_t> good = from_all(mpi, std::int32_t{segment.data() != nullptr});
  if (error) std::rethrow_exception(error);
  const auto bad = std::ranges::find(good, 0);
  if (bad != good.end()) throw SystemError(fmt::format("rank {} could not share memory with the others", bad - good.begin()));
  return segment;
}

struct Cores {
  CoreSharing sharing;
  int count = 1;
};

// The ranks of a host whose processes have the same set of cores divide them; mpiexec may have given each its own.
Cores find_cores(const MpiLibrary& mpi, int host) {
  struct Place {
    int host;
    cpu_set_t cores;
  } mine{.host = host, .cores = {}};
  sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  const std::vector<Place> all = from_all(mpi, mine);
  Cores cores{{0, 0}, std::max(1, CPU_COUNT(&mine.cores))};
  for (int r = 0; r < mpi.size(); ++r) {
    const Place& place = all[static_cast<std::size_t>(r)];
    if (place.host != host || !CPU_EQUAL(&place.cores, &mine.cores)) continue;
    if (r < mpi.rank()) ++cores.sharing.rank;
    ++cores.sharing.ranks;
  }
  return cores;
}

bool is_crowded(const Cores& cores, const MpiOptions& options) {
  return cores.sharing.ranks * std::max(1, options.threads) > cores.count;
}

std::vector<int> every_rank(const MpiLibrary& mpi) {
  std::vector<int> ranks(static_cast<std::size_t>(mpi.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

[[noreturn]] void end_job(const MpiLibrary& mpi, const std::string& text, int code) {
  fmt::print(stderr, "lockstep: {}\n", text);
  mpi.abort(code);
}

/// Ranks that share memory.
class HostWorld {
 public:
  HostWorld(const MpiLibrary& mpi, const MpiOptions& options, const Cores& cores)
      : mpi_(mpi),
        options_(options),
        cores_(cores),
        segment_(share_control(mpi)),
        control_(segment_.data(), mpi.size()),
        memory_(control_.directories, mpi.rank()),
        staging_(memory_, memory_.window()) {
    from_all(mpi, std::int32_t{0});  // every rank's directory is filled in
  }

  void run(const Body& body) {
    std::exception_ptr error = run_body(body);
    if (!leave(error != nullptr)) end_job(mpi_, control_.roll.reason(), control_.head->user_error.load() != 0 ? 2 : 1);
    if (error) std::rethrow_exception(error);
  }

 private:
  std::exception_ptr run_body(const Body& body) noexcept {
    host::Rank context{.number = mpi_.rank(),
                       .roll = control_.roll,
                       .memory = memory_,
                       .timeout = options_.timeout,
                       .crowded = is_crowded(cores_, options_),
                       .window = &memory_.window(),
                       .staging = &staging_,
                       .look_after = [this] { look_after_others(); }};
    try {
      host::HostCommunicator world(context, "world", control_.board, every_rank(mpi_), mpi_.rank());
      body(world, cores_.sharing);
      control_.roll.set(mpi_.rank(), host::Phase::finished);
      return nullptr;
    } catch (const RunAborted&) {
      return follow();
    } catch (const UserError& error) {
      return fail(error.what(), true);
    } catch (const BrokenRule& error) {
      fail(error.what(), false);
      return std::make_exception_ptr(BrokenRule(control_.roll.reason()));
    } catch (const std::exception& error) {
      return fail(error.what(), false);
    } catch (...) {
      return fail("an unknown error", false);
    }
  }

  std::exception_ptr fail(const std::string& what, bool user_error) {
    if (user_error && !control_.roll.aborted()) control_.head->user_error.store(1);
    control_.roll.abort(fmt::format("rank {} ended with an error: {}", mpi_.rank(), what));
    return follow();
  }

  // The launcher kills all ranks as soon as one has left, and with it what they had to say: whichever is first says it all.
  std::exception_ptr follow() {
    control_.roll.set(mpi_.rank(), host::Phase::failed);
    const std::string reason = control_.roll.reason();
    if (control_.head->user_error.load() != 0) return std::make_exception_ptr(UserError(reason));
    return std::make_exception_ptr(RunAborted(reason));
  }

  // A process that is no more without having said so was killed, or crashed.
  void look_after_others() noexcept {
    if (now_seconds() - looked_ < look_interval) return;
    looked_ = now_seconds();
    for (int r = 0; r < mpi_.size(); ++r) {
      const int pid = control_.directories[static_cast<std::size_t>(r)].pid;
      if (r == mpi_.rank() || control_.roll.phase(r) != host::Phase::running || is_alive(pid)) continue;
      if (control_.roll.phase(r) != host::Phase::running) continue;  // it ended between the two looks
      control_.roll.abort(fmt::format("rank {} is no more: process {} was killed or crashed", r, pid));
      control_.head->lost.store(1);
      control_.roll.set(r, host::Phase::failed);
    }
  }

  // Whether all others ended too and nobody was lost. After an error they have only so much time.
  bool leave(bool failed) {
    const double since = now_seconds();
    for (int turn = 0;; ++turn) {
      bool all = true;
      for (int r = 0; r < mpi_.size(); ++r) all = all && control_.roll.phase(r) != host::Phase::running;
      if (control_.head->lost.load() != 0) return false;
      if (all) return true;
      if (failed && now_seconds() - since > patience) return false;
      look_after_others();
      host::relax(turn, true);
    }
  }

  const MpiLibrary& mpi_;
  MpiOptions options_;
  Cores cores_;
  Segment segment_;
  Control control_;
  ProcessMemory memory_;
  host::Staging staging_;
  double looked_ = 0;
};

// Ranks of several hosts cannot see how the others are doing: one that fails ends the job.
void run_with_messages(const MpiLibrary& mpi, const MpiOptions& options, const Cores& cores, const Body& body) {
  const auto fail = [&](const std::string& what, int code) {
    end_job(mpi, fmt::format("rank {} ended with an error: {}", mpi.rank(), what), code);
  };
  try {
    MessageRank context{.timeout = options.timeout, .crowded = is_crowded(cores, options)};
    MessageCommunicator world(context, "world", 0, every_rank(mpi), mpi.rank());
    body(world, cores.sharing);
  } catch (const UserError& error) {
    fail(error.what(), 2);
  } catch (const std::exception& error) {
    fail(error.what(), 1);
  }
}

constexpr const char* pmix = "srun --mpi=pmix, or SLURM_MPI_TYPE=pmix in its environment";

// MPI itself would end the process with what it has to say about this.
void check_connected(const MpiJob& job) {
  if (job.connected) return;
  throw UserError(fmt::format("{} started {} processes without telling them how to find each other", job.launcher, job.ranks),
                  pmix);
}

void check_size(const MpiLibrary& mpi, const MpiJob& job) {
  if (mpi.size() != job.ranks) {
    throw UserError(fmt::format("{} started {} processes, but MPI sees {} of them together", job.launcher, job.ranks, mpi.size()),
                    job.launcher == "srun" ? pmix : "use the mpiexec of the Open MPI that the program is linked with");
  }
}

}  // namespace

void run_mpi(const MpiJob& job, const MpiOptions& options,
             const std::function<void(Communicator& world, const CoreSharing& sharing)>& body) {
  check_connected(job);
  const MpiLibrary mpi;
  check_size(mpi, job);
  const MpiLibrary::Host host = mpi.host();
  const Cores cores = find_cores(mpi, host.first);
  if (options.share_memory && host.ranks == mpi.size()) {
    HostWorld(mpi, options, cores).run(body);
  } else {
    run_with_messages(mpi, options, cores, body);
  }
}

}  // namespace lockstep::comm
