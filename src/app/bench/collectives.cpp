// `lockstep bench collectives`: how fast ranks exchange data, and how fast memory would let them.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "app/bench/bench.h"
#include "app/cli/build_info.h"
#include "app/start/dist_info.h"
#include "base/number_text.h"
#include "base/timer.h"
#include "lab/collectives/bench_collectives.h"
#include "lab/collectives/collective_trial.h"
#include "lab/collectives/older_benches.h"
#include "lab/machine.h"
#include "lab/process.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

struct CollectivesAsked {
  std::string op = "all_reduce", bytes;
  std::optional<std::int64_t> trials;
  int warmups = 5;
  bool profile_stability = false, latency = false, legacy = false, objects = false;
};

std::int64_t payload_from(const std::string& text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  constexpr std::pair<std::string_view, int> units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  for (const auto& [unit, shift] : units) {
    if (error == std::errc() && std::string_view(rest, end) == unit && value > 0 && value <= (INT64_MAX >> shift)) {
      return value << shift;
    }
  }
  throw UserError(fmt::format("--bytes {}: not a number of bytes", text), "--bytes 4096,64MiB");
}

std::vector<std::int64_t> payloads_from(const std::string& list) {
  std::vector<std::int64_t> payloads;
  for (const std::string& part : parts_of_list(list)) payloads.push_back(payload_from(part));
  return payloads;
}

bool read_collectives(BenchLine& line, CollectivesAsked& asked) {
  std::vector<std::string> names{"all"};
  for (const comm::Collective op : lab::tried_collectives()) names.emplace_back(name_of(op));
  line.choice("--op", asked.op, names, "which");
  line.ask_ranks();
  line.option("--bytes", asked.bytes, "A,B,C",
              "payloads, as 4096 or 64MiB (default: 32KiB, doubled up to 16GiB or half of the free memory)");
  line.option("--trials", asked.trials, "N", "timed trials of a payload (default: 20; with --legacy 5, with --objects 1000)");
  line.count("--warmups", asked.warmups, "N", "trials before them", 0);
  line.flag("--profile-stability", asked.profile_stability, "one row a trial; needs one payload in --bytes");
  line.flag("--latency", asked.latency, "all_reduce of 4 GB at once against 1000 times 4 MB (less where memory is short)");
  line.flag(
      "--legacy", asked.legacy,
      "all_reduce of 4 GB (or of --bytes; less where memory is short) as ml-engineering's bench of 2023 printed it. Every rank "
      "and trial is there, in bits a second");
  line.flag("--objects", asked.objects, "how ranks say that they are done: a text gathered from all beside a number added up");
  return line.read();
}

void check_collectives(BenchLine& line, const CollectivesAsked& asked) {
  const bool several = asked.bytes.find(',') != std::string::npos, other_op = asked.op != "all_reduce";
  if (asked.trials)
    line.demand(*asked.trials >= 1 && *asked.trials <= 1'000'000,
                fmt::format("--trials {}: must be at least 1, at most 1000000", *asked.trials), "--trials 20");
  line.demand(!asked.profile_stability || (!asked.bytes.empty() && !several), "--profile-stability looks at one payload",
              "--profile-stability --bytes 64MiB");
  line.demand(asked.op != "barrier" || asked.bytes.empty(),
              fmt::format("--op barrier --bytes {}: a barrier has no payload", asked.bytes), "--op barrier");
  line.demand(asked.latency + asked.legacy + asked.objects <= 1, "--latency, --legacy and --objects are benches of their own",
              "ask for one at a time");
  line.demand(!asked.legacy || (!other_op && !asked.profile_stability && !several),
              "--legacy times all_reduces of one payload and has its own format", "--legacy with --ranks, --trials, --bytes");
  line.demand(!asked.objects || (!other_op && asked.bytes.empty() && !asked.profile_stability),
              "--objects compares two calls of fixed sizes", "--objects with --ranks and --trials");
  line.demand(!asked.latency || (!other_op && asked.bytes.empty() && !asked.profile_stability),
              "--latency compares all_reduces of fixed sizes", "--latency with nothing but --ranks");
  line.check();
}

Answer compare_latency(BenchLine& line) {
  constexpr std::int64_t wanted = 4'000'000'000;
  constexpr int pieces = 1000;
  const std::int64_t room = lab::free_memory() / 2 / std::max<std::int64_t>(line.ranks().total, 1);
  return line.on_ranks([&](Session& session) {
    const lab::LatencyReport report = lab::bench_latency(std::min(wanted, room), pieces, session.runtime(), session.world());
    return answer_of(report, session.world().size());
  });
}

Answer run_legacy(BenchLine& line, const CollectivesAsked& asked) {
  constexpr std::int64_t wanted = 4'000'000'000;  // 500000 x 2000 x 4
  const std::int64_t ranks = std::max<std::int64_t>(line.ranks().total, 1), free = lab::free_memory();
  std::int64_t bytes = std::min(wanted, free / 2 / ranks);
  if (!asked.bytes.empty()) {
    bytes = payload_from(asked.bytes);
    lab::check_payloads({.ops = {comm::Collective::all_reduce}, .bytes = {bytes}}, static_cast<int>(ranks), free);
  }
  return line.on_ranks([&](Session& session) {
    const Standing standing = standing_of(session);
    const std::string name = fmt::format("{}:{}", standing.hosts[static_cast<std::size_t>(standing.rank)], standing.local_rank());
    const int trials = static_cast<int>(asked.trials.value_or(5));
    return answer_of(lab::bench_legacy(bytes, trials, name, session.runtime(), session.world()));
  });
}

Answer compare_objects(BenchLine& line, const CollectivesAsked& asked) {
  return line.on_ranks([&](Session& session) {
    return answer_of(lab::bench_flags(static_cast<int>(asked.trials.value_or(1000)), session.world()));
  });
}

lab::CollectiveBenchOptions bench_options(const CollectivesAsked& options, const RankCount& count) {
  lab::CollectiveBenchOptions bench{.trials = static_cast<int>(options.trials.value_or(20)), .warmups = options.warmups};
  if (options.op == "all") {
    const auto all = lab::tried_collectives();
    bench.ops.assign(all.begin(), all.end());
  } else {
    bench.ops = {lab::collective_from_name(options.op)};
  }
  const int ranks = static_cast<int>(std::clamp<std::int64_t>(count.total, 1, 1 << 20));
  const std::int64_t free = lab::free_memory();
  bench.bytes = options.bytes.empty() ? lab::default_payloads(bench.ops, ranks, free) : payloads_from(options.bytes);
  lab::check_payloads(bench, ranks, free);
  return bench;
}

// Whether Ctrl-C was pressed in this process, and the progress bar of the rank that draws one.
struct CollectiveWatch {
  train::StopSignal signal;
  std::optional<ProgressBar> bar;
  double done = 0;

  void attach(lab::CollectiveBenchOptions& bench, bool draws) {
    bench.stopped = [this] { return signal.received().has_value(); };
    if (!draws) return;
    bar.emplace(stderr, "bench collectives", static_cast<double>(bench.ops.size() * bench.bytes.size()));
    bench.before_payload = [this](comm::Collective op, std::int64_t bytes) {
      bar->update(done++, fmt::format("{} {}", name_of(op), bytes));
    };
  }
};

lab::CollectiveReport measure_collectives(lab::CollectiveBenchOptions bench, Session& session) {
  comm::Communicator& world = session.world();
  const std::string_view transport = name_of(session.transport());
  lab::CollectiveReport report{.peer = fmt::format("lockstep {} {}", kVersion, transport),
                               .environment = fmt::format("- software: lockstep {}, transport {}\n- hardware, of each rank: {}",
                                                          kVersion, transport, session.runtime().description()),
                               .ranks = world.size(),
                               .hosts = static_cast<int>(standing_of(session).nodes().size()),
                               .warmups = bench.warmups,
                               .trials = bench.trials};
  report.memory_bandwidth = lab::triad_bandwidth(session.team(), session.runtime().memory(), world);
  std::optional<CollectiveWatch> watch;
  if (session.leads_process()) watch.emplace().attach(bench, session.lead());
  lab::bench_collectives(bench, session.runtime(), world, report);
  return report;
}

std::optional<Answer> run_collectives(BenchLine& line) {
  CollectivesAsked asked;
  if (!read_collectives(line, asked)) return {};
  check_collectives(line, asked);
  if (asked.latency) return compare_latency(line);
  if (asked.legacy) return run_legacy(line, asked);
  if (asked.objects) return compare_objects(line, asked);
  const double started = now_seconds();
  const lab::CollectiveBenchOptions bench = bench_options(asked, line.ranks());
  return line.on_ranks([&](Session& session) {
    lab::CollectiveReport report = measure_collectives(bench, session);
    report.elapsed = now_seconds() - started;
    return asked.profile_stability ? stability_of(report) : answer_of(report);
  });
}

}  // namespace

Bench collectives_bench() {
  return {
      "collectives", "exchanges between ranks beside what memory allows",
      "Times blocking collectives: a barrier before every trial, then each rank's own clock. The tables show means over ranks "
      "and trials, --json the slowest rank's median. Every payload's result is checked before it is timed. Ctrl-C prints what "
      "there is so far.",
      "example:\n  lockstep bench collectives --op all --bytes 4KiB,64MiB\ndocs/collectives.md explains the columns.",
      run_collectives};
}

}  // namespace lockstep::app
