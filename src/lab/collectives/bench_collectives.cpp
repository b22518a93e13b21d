#include "lab/collectives/bench_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/median.h"
#include "base/timer.h"
#include "base/units.h"
#include "lab/collectives/collective_trial.h"

namespace lockstep::lab {
namespace {

using comm::Collective;

constexpr std::int64_t least_payload = std::int64_t{1} << 15, most_payload = std::int64_t{1} << 34;

std::int64_t elements_of(std::int64_t bytes, int ranks) {
  return bytes / static_cast<std::int64_t>(sizeof(float)) / ranks * ranks;
}

std::int64_t bytes_of_all_ranks(const std::vector<Collective>& ops, std::int64_t payload, int ranks) {
  std::int64_t most = 0;
  for (const Collective op : ops) most = std::max(most, trial_bytes(op, payload, ranks));
  return most * ranks;
}

/// What the ranks tell each other after a trial: its seconds, and whether to stop.
class Exchange {
 public:
  explicit Exchange(comm::Communicator& world)
      : world_(world), all_(2 * static_cast<std::size_t>(world.size())), counts_(static_cast<std::size_t>(world.size()), 2) {}

  void operator()(double seconds, bool stop) {
    std::array<double, 2> mine{seconds, stop ? 1.0 : 0.0};
    world_.host()
        .all_gather(view(std::span(all_), Shape{std::ssize(all_)}), view(std::span<double>(mine), Shape{std::ssize(mine)}),
                    counts_)
        .wait();
  }
  double slowest() const {
    double most = 0;
    for (std::size_t r = 0; r < counts_.size(); ++r) most = std::max(most, all_[2 * r]);
    return most;
  }
  double mean_bandwidth(std::int64_t bytes) const {
    double sum = 0;
    for (std::size_t r = 0; r < counts_.size(); ++r) sum += static_cast<double>(bytes) / all_[2 * r];
    return sum / static_cast<double>(counts_.size());
  }
  bool stop() const {
    for (std::size_t r = 0; r < counts_.size(); ++r) {
      if (all_[2 * r + 1] != 0) return true;
    }
    return false;
  }

 private:
  comm::Communicator& world_;
  std::vector<double> all_;
  std::vector<std::int64_t> counts_;
};

// False when a rank was told to stop; the row then has the trials so far.
bool time_payload(CollectiveTrial& trial, const CollectiveBenchOptions& options, comm::Communicator& world, CollectiveRow& row) {
  trial.run();
  if (const auto fault = trial.fault()) throw SystemError("wrong result, not timed: " + *fault);
  Exchange exchange(world);
  for (int i = -options.warmups; i < options.trials; ++i) {
    world.barrier();
    const double start = now_seconds();
    trial.run();
    exchange(now_seconds() - start, options.stopped && options.stopped());
    if (i >= 0) {
      row.slowest.push_back(exchange.slowest());
      row.bandwidth.push_back(exchange.mean_bandwidth(row.bytes));
    }
    if (exchange.stop()) return false;
  }
  return true;
}

}  // namespace

double bus_factor(Collective op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return others;
    default:
      return 1;
  }
}

double floor_bytes(Collective op, std::int64_t bytes, int ranks) {
  const auto payload = static_cast<double>(bytes);
  switch (op) {
    case Collective::all_reduce:
    case Collective::all_to_all:
    case Collective::send:
      return 2.0 * ranks * payload;
    case Collective::broadcast:
      return ranks * payload;
    case Collective::gather:
    case Collective::scatter:
      return 2 * payload;
    default:
      return (ranks + 1.0) * payload;
  }
}

double CollectiveRow::median_seconds() const { return median_of(slowest); }

double CollectiveRow::algbw() const {
  return std::accumulate(bandwidth.begin(), bandwidth.end(), 0.0) / static_cast<double>(bandwidth.size());
}

double CollectiveRow::share_of_floor(double memory_bandwidth) const {
  return floor_bytes(op, bytes, ranks) / memory_bandwidth / median_seconds();
}

std::vector<std::int64_t> default_payloads(const std::vector<Collective>& ops, int ranks, std::int64_t free_bytes) {
  std::vector<std::int64_t> payloads{least_payload};
  for (std::int64_t bytes = 2 * least_payload; bytes <= most_payload; bytes *= 2) {
    if (bytes_of_all_ranks(ops, bytes, ranks) <= free_bytes / 2) payloads.push_back(bytes);
  }
  return payloads;
}

void check_payloads(const CollectiveBenchOptions& options, int ranks, std::int64_t free_bytes) {
  std::vector<Problem> problems;
  for (const std::int64_t bytes : options.bytes) {
    if (elements_of(bytes, ranks) < 1) {
      problems.push_back({fmt::format("--bytes {}: {} ranks need at least one float each", bytes, ranks),
                          fmt::format("--bytes {}", ranks * static_cast<std::int64_t>(sizeof(float)))});
    } else if (bytes > free_bytes || bytes_of_all_ranks(options.ops, bytes, ranks) > free_bytes) {
      problems.push_back({fmt::format("--bytes {}: the buffers of {} ranks do not fit into the {} of free memory", bytes, ranks,
                                      format_bytes(static_cast<std::uint64_t>(free_bytes))),
                          "smaller payloads or fewer ranks"});
    }
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

void bench_collectives(const CollectiveBenchOptions& options, Runtime& runtime, comm::Communicator& world,
                       CollectiveReport& report) {
  const std::int64_t most = std::ranges::max(options.bytes);
  for (const Collective op : options.ops) {
    CollectiveTrial trial(op, 0, elements_of(most, world.size()), world, runtime.team(), runtime.memory());
    for (const std::int64_t bytes : options.bytes) {
      if (options.before_payload) options.before_payload(op, bytes);
      trial.fill(elements_of(bytes, world.size()));
      CollectiveRow row{.op = op, .ranks = world.size(), .bytes = trial.bytes(), .slowest = {}, .bandwidth = {}};
      report.stopped = !time_payload(trial, options, world, row);
      if (!row.slowest.empty()) report.rows.push_back(std::move(row));
      if (report.stopped) return;
      if (op == Collective::barrier) break;  // it has no payload
    }
  }
}

LatencyReport bench_latency(std::int64_t bytes, int pieces, Runtime& runtime, comm::Communicator& world) {
  constexpr int warmups = 3, trials = 5;
  const std::int64_t piece = elements_of(bytes / pieces, world.size());
  ensure(piece >= 1, "every rank has an element of every piece");
  LatencyReport report{.bytes = piece * pieces * static_cast<std::int64_t>(sizeof(float)), .pieces = pieces};
  const Memory memory = world.window(runtime.memory()).allocate(static_cast<std::size_t>(report.bytes));
  const Tensor whole =
      view(std::span(reinterpret_cast<float*>(memory.data()), static_cast<std::size_t>(piece * pieces)), Shape{piece * pieces});
  std::ranges::fill(elements<float>(whole), 1.0F);
  Exchange exchange(world);
  const auto timed = [&](const auto& work) {
    std::vector<double> seconds;
    for (int i = -warmups; i < trials; ++i) {
      world.barrier();
      const double start = now_seconds();
      work();
      exchange(now_seconds() - start, false);
      if (i >= 0) seconds.push_back(exchange.slowest());
    }
    return median_of(seconds);
  };
  report.large = timed([&] { world.all_reduce(whole, comm::Reduction::mean).wait(); });
  report.small = timed([&] {
    for (int i = 0; i < pieces; ++i) world.all_reduce(whole.flat(i * piece, piece), comm::Reduction::mean).wait();
  });
  for (const float x : elements<float>(whole)) {
    if (x != 1.0F) throw SystemError(fmt::format("all_reduce (mean) of ones over {} ranks gave {}", world.size(), x));
  }
  return report;
}

}  // namespace lockstep::lab
