#include "comm/mpi/mpi_world.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text/visible.h"
#include "base/thread.h"
#include "base/timer.h"
#include "comm/errors.h"
#include "comm/host/host_communicator.h"
#include "comm/mpi/host_first.h"
#include "comm/mpi/host_memory.h"
#include "comm/mpi/library.h"
#include "comm/mpi/message_communicator.h"
#include "comm/mpi/watchdog.h"

namespace lockstep::comm {
namespace {

using Body = std::function<void(Communicator& world, const HostPlace& place)>;

// The problems that a UserError's text tells: a line each, and one with an arrow for a remedy.
std::vector<Problem> problems_of(const std::string& text) {
  constexpr std::string_view arrow = "  -> ";
  std::vector<Problem> problems;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!problems.empty() && line.starts_with(arrow)) {
      problems.back().remedy = line.substr(arrow.size());
    } else {
      problems.push_back({line, ""});
    }
  }
  return problems;
}

constexpr int kSystemError = 1, kUserError = 2, kBrokenRule = 70;  // exit codes
constexpr double longest_end = 10;                                 // seconds for the launcher to end a rank
constexpr double longest_move = 1;  // seconds for another rank to leave this one's buffers; what they share stays mapped in it
constexpr double patience = 3;      // seconds for the others to follow an error
constexpr double abort_interval = 0.25, longest_turn = 1.5;  // seconds between two ranks that end the job, and for all of them
constexpr double beat_interval = 0.5;                        // seconds between two signs of life
constexpr double look_interval = 0.2;                        // seconds between two looks at the others' processes

struct Neighbours {
  HostPlace place;
  int cores = 1;  // that this rank may use
};

// The ranks of a host whose processes have the same set of cores divide them; mpiexec may have given each its own.
Neighbours find_neighbours(const MpiLibrary& mpi, int host) {
  struct Place {
    int host;
    cpu_set_t cores;
  } mine{.host = host, .cores = {}};
  sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  const std::vector<Place> all = from_all(mpi, mine);
  HostPlace found{.rank = 0, .ranks = 0, .cores = {0, 0}};
  for (int r = 0; r < mpi.size(); ++r) {
    const Place& place = all[static_cast<std::size_t>(r)];
    if (place.host != host) continue;
    const int before = r < mpi.rank() ? 1 : 0;
    found.rank += before;
    ++found.ranks;
    if (!CPU_EQUAL(&place.cores, &mine.cores)) continue;
    found.cores.rank += before;
    ++found.cores.ranks;
  }
  return {found, std::max(1, CPU_COUNT(&mine.cores))};
}

bool is_crowded(const Neighbours& neighbours, const MpiOptions& options) {
  return neighbours.place.cores.ranks * std::max(1, options.threads) > neighbours.cores;
}

std::vector<int> every_rank(const MpiLibrary& mpi) {
  std::vector<int> ranks(static_cast<std::size_t>(mpi.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

[[noreturn]] void end_job(const MpiLibrary& mpi, const std::string& text, int code) {
  say(stderr, fmt::format("lockstep: {}\n", visible(text, LineBreaks::kept)));
  mpi.abort(code, longest_end);
}

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Open MPI's mpirun may crash when several ranks tell it at a time to end the job. So each waits for the ranks before it, and is
// mostly ended meanwhile.
[[noreturn]] void fail_job(const MpiLibrary& mpi, const std::string& what, int code) {
  sleep_for(std::min(mpi.rank() * abort_interval, longest_turn));
  end_job(mpi, fmt::format("rank {} ended with an error: {}", mpi.rank(), what), code);
}

/// Ranks that share memory.
class HostWorld {
 public:
  HostWorld(const MpiLibrary& mpi, const MpiOptions& options, const Neighbours& neighbours, const MpiLibrary::Host& host)
      : mpi_(mpi), options_(options), neighbours_(neighbours), host_(mpi, host), control_(host_.control) {}

  void run(const Body& body) {
    const std::jthread heart = start_heart();
    std::exception_ptr error = run_body(body);
    if (!leave(error != nullptr)) end();
    if (error) std::rethrow_exception(error);
  }

 private:
  std::exception_ptr run_body(const Body& body) noexcept {
    host::Rank context{.number = mpi_.rank(),
                       .roll = control_.roll,
                       .memory = host_.memory,
                       .timeout = options_.timeout,
                       .longest_move = longest_move,
                       .crowded = is_crowded(neighbours_, options_),
                       .window = &host_.memory.window(),
                       .staging = &host_.staging,
                       .look_after = [this] { look_after_others(); }};
    try {
      host::HostCommunicator world(context, "world", control_.board, every_rank(mpi_), mpi_.rank());
      body(world, neighbours_.place);
      control_.roll.set(mpi_.rank(), host::Phase::finished);
      return nullptr;
    } catch (const RunAborted&) {
      return follow();
    } catch (const UserError& error) {
      return fail(error.what(), kUserError);
    } catch (const BrokenRule& error) {
      return fail(error.what(), kBrokenRule);
    } catch (const std::exception& error) {
      return fail(error.what(), kSystemError);
    } catch (...) {
      return fail("an unknown error", kSystemError);
    }
  }

  int exit_code() const { return std::max(kSystemError, control_.head->exit_code.load()); }

  // One rank tells MPI (see fail_job); the others wait to be ended.
  [[noreturn]] void end() {
    if (control_.head->ending.exchange(1) == 0) end_job(mpi_, control_.roll.reason(), exit_code());
    sleep_for(longest_end);
    std::_Exit(exit_code());
  }

  std::exception_ptr fail(const std::string& what, int code) {
    int none = 0;
    control_.head->exit_code.compare_exchange_strong(none, code);
    control_.roll.abort(fmt::format("rank {} ended with an error: {}", mpi_.rank(), what));
    return follow();
  }

  // The launcher kills all ranks as soon as one has left, and with it what they had to say: whichever is first says it all.
  std::exception_ptr follow() {
    control_.roll.set(mpi_.rank(), host::Phase::failed);
    const std::string reason = control_.roll.reason();
    if (exit_code() == kUserError) return std::make_exception_ptr(UserError(problems_of(reason)));
    if (exit_code() == kBrokenRule) return std::make_exception_ptr(BrokenRule(reason));
    return std::make_exception_ptr(RunAborted(reason));
  }

  // Tells the others that this process runs, however long its rank computes.
  std::jthread start_heart() {
    return start_thread("heart", [this](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any ended;
      std::unique_lock lock(mutex);
      while (!stop.stop_requested()) {
        control_.roll.beat(mpi_.rank());
        ended.wait_for(lock, stop, std::chrono::duration<double>(beat_interval), [] { return false; });
      }
    });
  }

  // Whether the rank's process is stopped: it has had comm.timeout to stir while this one was looking.
  bool is_stopped(int rank, bool looked_away) {
    Seen& seen = seen_[static_cast<std::size_t>(rank)];
    const std::uint64_t beats = control_.roll.beats(rank);
    if (beats != seen.beats || looked_away) seen = {beats, looked_};
    return looked_ - seen.since > options_.timeout;
  }

  void lose(int rank, const std::string& why) {
    control_.roll.abort(why);
    control_.head->lost.store(1);
    control_.roll.set(rank, host::Phase::failed);
  }

  // A process that is no more without having said so was killed, or crashed.
  void look_after_others() noexcept {
    const double before = looked_;
    if (now_seconds() - before < look_interval) return;
    looked_ = now_seconds();
    const bool looked_away = looked_ - before > 2 * beat_interval;
    for (int r = 0; r < mpi_.size(); ++r) {
      const int pid = control_.directories[static_cast<std::size_t>(r)].pid;
      if (r == mpi_.rank() || control_.roll.phase(r) != host::Phase::running) continue;
      if (is_alive(pid)) {
        if (is_stopped(r, looked_away))
          lose(r,
               fmt::format("rank {} has not stirred for comm.timeout = {} s: process {} is stopped", r, options_.timeout, pid));
        continue;
      }
      if (control_.roll.phase(r) != host::Phase::running) continue;  // it ended between the two looks
      lose(r, fmt::format("rank {} is no more: process {} was killed or crashed", r, pid));
    }
  }

  // Whether all others ended too and none was lost. After an error they have only so much time.
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
  Neighbours neighbours_;
  HostMemory host_;
  HostControl& control_;
  double looked_ = 0;
  struct Seen {
    std::uint64_t beats = 0;
    double since = 0;
  };
  std::vector<Seen> seen_ = std::vector<Seen>(static_cast<std::size_t>(mpi_.size()));  // of the others
};

/// Ranks of several hosts; where the hosts fit the tree, those of a host share memory too.
class MessageWorld {
 public:
  MessageWorld(const MpiLibrary& mpi, const MpiOptions& options, const Neighbours& neighbours)
      : mpi_(mpi),
        context_{.timeout = options.timeout, .crowded = is_crowded(neighbours, options), .number = mpi.rank()},
        place_(neighbours.place) {}

  void run(const MpiLibrary::Host& host, const Body& body) {
    auto all = std::make_unique<MessageCommunicator>(context_, "world", 0, every_rank(mpi_), mpi_.rank());
    std::vector<int> hosts = from_all(mpi_, host.first);
    if (HostFirstCommunicator::fits(all->members(), hosts) == 0) return body(*all, place_);
    HostMemory memory(mpi_, host);
    host::Rank rank{.number = mpi_.rank(),
                    .roll = memory.control.roll,
                    .memory = memory.memory,
                    .timeout = context_.timeout,
                    .longest_move = longest_move,
                    .crowded = context_.crowded,
                    .window = &memory.memory.window(),
                    .staging = &memory.staging,
                    .look_after = [this] { go_on(); }};
    std::vector<int> members(static_cast<std::size_t>(host.ranks));
    std::iota(members.begin(), members.end(), host.first);
    HostGroups groups{std::make_unique<host::HostCommunicator>(rank, "the host of rank " + std::to_string(host.first),
                                                               memory.control.board, members, mpi_.rank() - host.first),
                      nullptr};
    groups.after = groups.before->split(0, 0);
    context_.roll = &memory.control.roll;
    HostFirstCommunicator world(context_, std::move(all), std::move(groups), std::move(hosts));
    body(world, place_);
  }

 private:
  // While others of the host are waited for, the hosts go on.
  void go_on() noexcept {
    try {
      context_.progress();
    } catch (const std::exception& error) {
      fail_job(mpi_, error.what(), kSystemError);
    }
  }

  const MpiLibrary& mpi_;
  MessageRank context_;
  HostPlace place_;
};

// Ranks of several hosts cannot see how the others are doing: one that fails ends the job.
void run_with_messages(const MpiLibrary& mpi, const MpiOptions& options, const Neighbours& neighbours,
                       const MpiLibrary::Host& host, const Body& body) {
  try {
    MessageWorld(mpi, options, neighbours).run(host, body);
  } catch (const RunAborted& error) {
    sleep_for(longest_turn);  // a rank that fails for a reason of its own has more to say
    fail_job(mpi, error.what(), kSystemError);
  } catch (const UserError& error) {
    fail_job(mpi, error.what(), kUserError);
  } catch (const BrokenRule& error) {
    fail_job(mpi, fmt::format("a bug of this program: {}", error.what()), kBrokenRule);
  } catch (const std::exception& error) {
    fail_job(mpi, error.what(), kSystemError);
  } catch (...) {
    fail_job(mpi, "an unknown error", kSystemError);
  }
}

// Where this rank is; options may cut a host into several.
MpiLibrary::Host find_host(const MpiLibrary& mpi, const MpiOptions& options) {
  if (options.host_ranks <= 0) return mpi.host();
  const int first = mpi.rank() / options.host_ranks * options.host_ranks;
  return {.first = first, .ranks = std::min(options.host_ranks, mpi.size() - first)};
}

constexpr const char* pmix = "srun --mpi=pmix, or SLURM_MPI_TYPE=pmix in its environment";

// MPI itself would end the process with what it has to say about this.
void check_connected(const MpiJob& job) {
  if (job.connected) return;
  throw UserError(fmt::format("{} started {} processes without telling them how to find each other", job.launcher, job.ranks),
                  job.launcher == "srun" ? pmix : "lockstep launch -n N train ..., or mpirun, starts ranks that find each other");
}

void check_size(const MpiLibrary& mpi, const MpiJob& job) {
  if (mpi.size() != job.ranks) {
    throw UserError(
        fmt::format("{} started {} processes, but MPI sees {} of them together", job.launcher, job.ranks, mpi.size()),
        job.launcher == "srun" ? pmix : "use the mpiexec of the MPI whose library was loaded (ldd on the plugin names it)");
  }
}

}  // namespace

void run_mpi(const MpiJob& job, const MpiOptions& options,
             const std::function<void(Communicator& world, const HostPlace& place)>& body) {
  check_connected(job);
  std::optional<Watchdog> start(std::in_place, options.timeout,
                                nobody_came(fmt::format("rank {}: the start of MPI", job.rank), options.timeout));
  const MpiLibrary mpi(options.timeout);
  check_size(mpi, job);
  const MpiLibrary::Host host = find_host(mpi, options);
  const Neighbours neighbours = find_neighbours(mpi, host.first);
  if (host.ranks == mpi.size()) {
    HostWorld world(mpi, options, neighbours, host);
    start.reset();
    world.run(body);
  } else {
    start.reset();
    run_with_messages(mpi, options, neighbours, host, body);
  }
}

}  // namespace lockstep::comm
