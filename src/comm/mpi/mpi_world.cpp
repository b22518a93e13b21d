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
#include "comm/mpi/process_memory.h"

namespace lockstep::comm {
namespace {

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

// The ranks whose processes have the same set of cores divide them; mpiexec may have given each its own.
Cores find_cores(const MpiLibrary& mpi) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  const std::vector<cpu_set_t> all = from_all(mpi, mine);
  Cores cores{{0, 0}, std::max(1, CPU_COUNT(&mine))};
  for (int r = 0; r < mpi.size(); ++r) {
    if (!CPU_EQUAL(&all[static_cast<std::size_t>(r)], &mine)) continue;
    if (r < mpi.rank()) ++cores.sharing.rank;
    ++cores.sharing.ranks;
  }
  return cores;
}

class MpiWorld {
 public:
  MpiWorld(const MpiLibrary& mpi, const MpiOptions& options)
      : mpi_(mpi),
        options_(options),
        cores_(find_cores(mpi)),
        segment_(share_control(mpi)),
        control_(segment_.data(), mpi.size()),
        memory_(control_.directories, mpi.rank()),
        staging_(memory_, memory_.window()) {
    from_all(mpi, std::int32_t{0});  // every rank's directory is filled in
  }

  void run(const std::function<void(Communicator&, const CoreSharing&)>& body) {
    std::exception_ptr error = run_body(body);
    if (leave(error != nullptr)) {
      if (error) std::rethrow_exception(error);
      return;
    }
    const auto [text, code] = describe(error);
    fmt::print(stderr, "lockstep: {}\n", text);
    mpi_.abort(code);
  }

 private:
  std::exception_ptr run_body(const std::function<void(Communicator&, const CoreSharing&)>& body) noexcept {
    host::Rank context{.number = mpi_.rank(),
                       .roll = control_.roll,
                       .memory = memory_,
                       .timeout = options_.timeout,
                       .crowded = cores_.sharing.ranks * std::max(1, options_.threads) > cores_.count,
                       .window = &memory_.window(),
                       .staging = &staging_,
                       .look_after = [this] { look_after_others(); }};
    std::vector<int> members(static_cast<std::size_t>(mpi_.size()));
    std::iota(members.begin(), members.end(), 0);
    try {
      host::HostCommunicator world(context, "world", control_.board, std::move(members), mpi_.rank());
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

  std::pair<std::string, int> describe(const std::exception_ptr& error) const {
    if (!error) return {control_.roll.reason(), 1};
    try {
      std::rethrow_exception(error);
    } catch (const UserError& user_error) {
      return {user_error.what(), 2};
    } catch (const std::exception& other) {
      return {other.what(), 1};
    } catch (...) {
      return {"an unknown error", 1};
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

void check_job(const MpiLibrary& mpi, const MpiJob& job) {
  if (mpi.size() != job.ranks) {
    throw UserError(
        fmt::format("{} started {} processes, but MPI sees {} of them together", job.launcher, job.ranks, mpi.size()),
        job.launcher == "srun" ? "srun --mpi=pmix" : "use the mpiexec of the Open MPI that the program is linked with");
  }
  if (const int here = mpi.ranks_of_host(); here != mpi.size()) {
    throw UserError(
        fmt::format("{} of {} ranks are on this host: ranks share memory, so all must be on one host", here, mpi.size()),
        "start them on one host: mpiexec -n N --host HOST:N");
  }
}

}  // namespace

void run_mpi(const MpiJob& job, const MpiOptions& options,
             const std::function<void(Communicator& world, const CoreSharing& sharing)>& body) {
  const MpiLibrary mpi;
  check_job(mpi, job);
  MpiWorld(mpi, options).run(body);
}

}  // namespace lockstep::comm
