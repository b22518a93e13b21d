#include "device/team.h"

#include <hwy/cache_control.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread.h"

namespace lockstep {
namespace {

// One 32-bit word opens and closes a job: its number, whether it is open, and how many workers are inside. A worker enters
// by adding 1 while the job is open, so a worker that comes late (asleep, descheduled) delays no other.
constexpr std::uint32_t inside_mask = (1U << 10) - 1;
constexpr std::uint32_t open_bit = 1U << 10;
constexpr std::uint32_t job_step = 1U << 11;
constexpr std::uint32_t job_mask = ~(job_step - 1);

// How many tiles of a worker's part were taken, and in which job. The first worker that takes one begins a new count. So the
// caller need not touch every worker's cache line before each job.
class alignas(64) Part {
 public:
  // The next tile of `count`, counted from the part's first; count or more: none is left.
  std::int64_t take(std::uint32_t job, std::int64_t count) {
    std::uint64_t now = taken_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t tile = now >> 32 == job ? now & 0xffffffffU : 0;
      if (static_cast<std::int64_t>(tile) >= count) return count;
      const std::uint64_t after = std::uint64_t{job} << 32 | (tile + 1);
      if (taken_.compare_exchange_weak(now, after, std::memory_order_relaxed)) return static_cast<std::int64_t>(tile);
    }
  }

 private:
  std::atomic<std::uint64_t> taken_{0};
};

// Longer than the gaps inside a training step, so that workers sleep only when the program does something else.
constexpr auto spin_time = std::chrono::milliseconds(3);

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// Spins until `done`; gives the core away after a while, for teams larger than the machine.
template <class Done>
void spin_until(Done done) {
  for (int turn = 0; !done(); ++turn) {
    if (turn < 4096)
      hwy::Pause();
    else
      sched_yield();
  }
}

}  // namespace

struct Team::State {
  // The job, written while no worker is inside.
  Call call = nullptr;
  void* body = nullptr;
  std::int64_t tiles = 0;
  Order order = Order::ascending;
  std::uint32_t by_worker_jobs = 0;

  alignas(64) std::atomic<std::uint32_t> word{0};
  alignas(64) std::atomic<std::int64_t> next{0};
  alignas(64) std::atomic<std::uint32_t> sleepers{0};
  std::atomic<bool> stopping{false};
  alignas(64) std::atomic<int> arrived{0};
  std::atomic<std::uint32_t> meetings{0};
  std::atomic<int> finished{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  bool crowded = false;     // more workers than cores: spinning would keep others from working
  int home = -1;            // the caller's core when every other one has a pinned worker
  std::vector<Part> parts;  // one a worker
  std::vector<std::jthread> threads;

  void fail() {
    if (!failed.exchange(true)) error = std::current_exception();
    next.store(tiles, std::memory_order_relaxed);
  }

  void take_ascending(int worker) {
    for (std::int64_t tile = next.fetch_add(1, std::memory_order_relaxed); tile < tiles;
         tile = next.fetch_add(1, std::memory_order_relaxed))
      call(body, tile, worker);
  }

  void take_by_worker(int worker) {
    const std::int64_t workers = std::ssize(parts);
    for (std::int64_t i = 0; i < workers; ++i) {
      const std::int64_t part = (worker + i) % workers;
      const std::int64_t first = tiles * part / workers, count = tiles * (part + 1) / workers - first;
      for (;;) {
        const std::int64_t tile = parts[static_cast<std::size_t>(part)].take(by_worker_jobs, count);
        if (tile >= count || failed.load(std::memory_order_relaxed)) break;
        call(body, first + tile, worker);
      }
    }
  }

  void work(int worker) {
    try {
      switch (order) {
        case Order::ascending:
          take_ascending(worker);
          break;
        case Order::by_worker:
          take_by_worker(worker);
          break;
        case Order::on_all:
          call(body, 0, worker);
          break;
      }
    } catch (...) {
      fail();
    }
  }

  // Waits for an open job other than `seen` and enters it; false: the team ends.
  bool enter(std::uint32_t& seen) {
    auto deadline = std::chrono::steady_clock::now() + (crowded ? std::chrono::microseconds(20) : spin_time);
    for (unsigned turn = 1;; ++turn) {
      std::uint32_t now = word.load(std::memory_order_acquire);
      if ((now & open_bit) != 0 && (now & job_mask) != seen) {
        if (!word.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) continue;
        seen = now & job_mask;
        return !stopping.load(std::memory_order_relaxed);
      }
      hwy::Pause();
      if (turn % 64 != 0 || std::chrono::steady_clock::now() < deadline) continue;
      sleepers.fetch_add(1);
      if (word.load() == now) futex_wait(word, now);
      sleepers.fetch_sub(1);
      deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    }
  }

  void serve(int worker) {
    std::uint32_t seen = 0;
    while (enter(seen)) {
      work(worker);
      finished.fetch_add(1, std::memory_order_relaxed);
      word.fetch_sub(1, std::memory_order_acq_rel);
    }
    word.fetch_sub(1, std::memory_order_acq_rel);
  }

  // A caller that slept may wake up on a pinned worker's core. The two then share one core for as long as the scheduler lets
  // them, and the team is half as fast. So the caller goes back to the core that is left. It keeps its mask, because threads that
  // it starts inherit that.
  void go_home() const {
    if (home < 0 || sched_getcpu() == home) return;
    cpu_set_t mask;
    if (pthread_getaffinity_np(pthread_self(), sizeof mask, &mask) != 0 || !CPU_ISSET(static_cast<std::size_t>(home), &mask))
      return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(home), &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0) pthread_setaffinity_np(pthread_self(), sizeof mask, &mask);
  }

  void start(int workers) {
    parts = std::vector<Part>(static_cast<std::size_t>(workers));
    std::vector<int> cores = allowed_cores();
    crowded = static_cast<std::size_t>(workers) > cores.size();
    const bool pin = static_cast<std::size_t>(workers) == cores.size();
    // The caller stays where it is (threads it starts would inherit its pin); the workers take the other cores.
    if (pin && workers > 1) {
      home = sched_getcpu();
      std::erase(cores, home);
    }
    for (int worker = 1; worker < workers; ++worker) {
      threads.push_back(
          start_thread("team-" + std::to_string(worker), [this, worker](const std::stop_token&) { serve(worker); }));
      if (!pin) continue;
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<std::size_t>(cores[static_cast<std::size_t>(worker - 1) % cores.size()]), &set);
      pthread_setaffinity_np(threads.back().native_handle(), sizeof set, &set);
    }
  }

  void open() {
    go_home();
    failed.store(false, std::memory_order_relaxed);
    finished.store(0, std::memory_order_relaxed);
    word.store(((word.load(std::memory_order_relaxed) & job_mask) + job_step) | open_bit);
    if (sleepers.load() != 0) futex_wake_all(word);
  }

  // The last job has no work; it stays open until every worker has gone through it.
  void stop() {
    stopping.store(true);
    open();
    threads.clear();
  }

  void close() {
    word.fetch_and(~open_bit, std::memory_order_acq_rel);
    spin_until([&] { return (word.load(std::memory_order_acquire) & inside_mask) == 0; });
    if (failed.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error, nullptr));
  }
};

Team::Team(int threads) : size_(threads), state_(std::make_unique<State>()) {
  ensure(threads >= 1 && threads <= most_threads, "a team has 1 to 1000 workers");
  try {
    state_->start(threads);
  } catch (...) {  // the threads that were started wait for work
    state_->stop();
    throw;
  }
}

Team::~Team() {
  if (size_ > 1) state_->stop();
}

void Team::run(std::int64_t tiles, Order order, Call call, void* body) {
  State& state = *state_;
  state.call = call;
  state.body = body;
  state.tiles = tiles;
  state.order = order;
  if (order == Order::by_worker) ++state.by_worker_jobs;
  state.next.store(0, std::memory_order_relaxed);
  state.open();
  state.work(0);
  state.close();
}

void Team::run_all(Call call, void* body) {
  State& state = *state_;
  state.call = call;
  state.body = body;
  state.tiles = 0;
  state.order = Order::on_all;
  state.arrived.store(0, std::memory_order_relaxed);
  state.open();
  state.work(0);
  spin_until([&] { return state.finished.load(std::memory_order_relaxed) == size_ - 1; });
  state.close();
}

void Team::barrier() {
  State& state = *state_;
  const std::uint32_t meeting = state.meetings.load(std::memory_order_acquire);
  if (state.arrived.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    state.arrived.store(0, std::memory_order_relaxed);
    state.meetings.fetch_add(1, std::memory_order_release);
    return;
  }
  spin_until(
      [&] { return state.meetings.load(std::memory_order_acquire) != meeting || state.failed.load(std::memory_order_relaxed); });
  // A worker that failed will never come: leave as well (its exception is the one that is rethrown).
  ensure(state.meetings.load(std::memory_order_acquire) != meeting, "every worker reaches the barrier");
}

}  // namespace lockstep
