// `lockstep bench collectives`: how fast ranks exchange data, and how fast memory would let them.

#include "lab/collectives/bench_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "app/build_info.h"
#include "app/command_line.h"
#include "app/fitness/dist_info.h"
#include "app/fitness/fitness.h"
#include "app/session.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/timer.h"
#include "lab/collectives/collective_trial.h"
#include "lab/collectives/older_benches.h"
#include "lab/machine.h"
#include "lab/process.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string op = "all_reduce", bytes;
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> trials;
  std::int64_t warmups = 5;
  bool profile_stability = false, latency = false, legacy = false, objects = false, json = false;
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
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    payloads.push_back(payload_from(list.substr(at, comma - at)));
    at = comma + 1;
  }
  return payloads;
}

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line(
      "bench collectives",
      "Times blocking collectives: a barrier before every trial, then each rank's own clock. The tables show means over ranks "
      "and "
      "trials, --json the slowest rank's median. Every payload's result is checked before it is timed. Ctrl-C prints what there "
      "is so far.");
  std::vector<std::string> names{"all"};
  for (const comm::Collective op : lab::tried_collectives()) names.emplace_back(name_of(op));
  line.choice("--op", options.op, names, "which");
  line.option("--ranks", options.ranks, "N", "ranks (default: one a core; under mpiexec those it started)");
  line.option("--bytes", options.bytes, "A,B,C",
              "payloads, as 4096 or 64MiB (default: 32KiB, doubled up to 16GiB or half of the free memory)");
  line.option("--trials", options.trials, "N", "timed trials of a payload (default: 20; with --legacy 5, with --objects 1000)");
  line.option("--warmups", options.warmups, "N", "trials before them");
  line.flag("--profile-stability", options.profile_stability, "one row a trial; needs one payload in --bytes");
  line.flag("--latency", options.latency, "all_reduce of 4 GB at once against 1000 times 4 MB (less where memory is short)");
  line.flag(
      "--legacy", options.legacy,
      "all_reduce of 4 GB (or of --bytes; less where memory is short) as ml-engineering's bench of 2023 printed it: every rank "
      "and trial, in bits a second");
  line.flag("--objects", options.objects, "how ranks say that they are done: a text gathered from all beside a number added up");
  line.flag("--json", options.json, "one line of JSON a payload");
  line.note("example:\n  lockstep bench collectives --op all --bytes 4KiB,64MiB\n  docs/collectives.md explains the columns");
  return line.parse(arguments);
}

void check(const Options& options) {
  std::vector<Problem> problems;
  if (options.trials && (*options.trials < 1 || *options.trials > 1'000'000))
    problems.push_back({fmt::format("--trials {}: must be at least 1, at most 1000000", *options.trials), "--trials 20"});
  if (options.warmups < 0)
    problems.push_back({fmt::format("--warmups {}: must not be negative", options.warmups), "--warmups 5"});
  if (options.profile_stability && (options.bytes.empty() || options.bytes.find(',') != std::string::npos)) {
    problems.push_back({"--profile-stability looks at one payload", "--profile-stability --bytes 64MiB"});
  }
  if (options.op == "barrier" && !options.bytes.empty())
    problems.push_back({fmt::format("--op barrier --bytes {}: a barrier has no payload", options.bytes), "--op barrier"});
  if (options.latency + options.legacy + options.objects > 1)
    problems.push_back({"--latency, --legacy and --objects are benches of their own", "ask for one at a time"});
  if (options.legacy &&
      (options.op != "all_reduce" || options.json || options.profile_stability || options.bytes.find(',') != std::string::npos))
    problems.push_back(
        {"--legacy times all_reduces of one payload and has its own format", "--legacy with --ranks, --trials, --bytes"});
  if (options.objects && (options.op != "all_reduce" || !options.bytes.empty() || options.json || options.profile_stability))
    problems.push_back({"--objects compares two calls of fixed sizes", "--objects with --ranks and --trials"});
  if (options.latency && (options.op != "all_reduce" || !options.bytes.empty() || options.json || options.profile_stability)) {
    problems.push_back({"--latency compares all_reduces of fixed sizes", "--latency with nothing but --ranks"});
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

void compare_latency(const Options& options) {
  constexpr std::int64_t wanted = 4'000'000'000;
  constexpr int pieces = 1000;
  const RankCount count = rank_count(options.ranks);
  const std::int64_t room = lab::free_memory() / 2 / std::max<std::int64_t>(count.total, 1);
  run_on_ranks({.ranks = count.to_start}, [&](Session& session) {
    const lab::LatencyReport report = lab::bench_latency(std::min(wanted, room), pieces, session.runtime(), session.world());
    if (session.lead()) fmt::print("{}", lab::to_text(report, session.world().size()));
  });
}

void run_legacy(const Options& options) {
  constexpr std::int64_t wanted = 4'000'000'000;  // 500000 x 2000 x 4
  const RankCount count = rank_count(options.ranks);
  const std::int64_t ranks = std::max<std::int64_t>(count.total, 1), free = lab::free_memory();
  std::int64_t bytes = std::min(wanted, free / 2 / ranks);
  if (!options.bytes.empty()) {
    bytes = payload_from(options.bytes);
    lab::check_payloads({.ops = {comm::Collective::all_reduce}, .bytes = {bytes}}, static_cast<int>(ranks), free);
  }
  run_on_ranks({.ranks = count.to_start}, [&](Session& session) {
    const Standing standing = standing_of(session);
    const std::string name = fmt::format("{}:{}", standing.hosts[static_cast<std::size_t>(standing.rank)], standing.local_rank());
    const lab::LegacyReport report =
        lab::bench_legacy(bytes, static_cast<int>(options.trials.value_or(5)), name, session.runtime(), session.world());
    if (session.lead()) fmt::print("{}", lab::to_text(report));
  });
}

void compare_objects(const Options& options) {
  run_on_ranks({.ranks = rank_count(options.ranks).to_start}, [&](Session& session) {
    const lab::FlagReport report = lab::bench_flags(static_cast<int>(options.trials.value_or(1000)), session.world());
    if (session.lead()) fmt::print("{}", lab::to_text(report));
  });
}

lab::CollectiveBenchOptions bench_options(const Options& options, const RankCount& count) {
  lab::CollectiveBenchOptions bench{.trials = static_cast<int>(options.trials.value_or(20)),
                                    .warmups = static_cast<int>(options.warmups)};
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

void print(const Options& options, const lab::CollectiveReport& report) {
  if (options.json) {
    for (const lab::CollectiveRow& row : report.rows) fmt::print("{}\n", lab::to_json(row, report.peer).dump());
  } else {
    fmt::print("{}", options.profile_stability ? lab::to_stability_text(report) : lab::to_text(report));
  }
}

// Of a process: whether Ctrl-C was pressed, and on the rank that prints a bar.
struct Watch {
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

lab::CollectiveReport measure(const Options& options, lab::CollectiveBenchOptions bench, Session& session) {
  comm::Communicator& world = session.world();
  const std::string_view transport = name_of(session.transport());
  lab::CollectiveReport report{.peer = fmt::format("lockstep {} {}", kVersion, transport),
                               .environment = fmt::format("- software: lockstep {}, transport {}\n- hardware, of each rank: {}",
                                                          kVersion, transport, session.runtime().description()),
                               .ranks = world.size(),
                               .hosts = static_cast<int>(standing_of(session).nodes().size()),
                               .warmups = bench.warmups,
                               .trials = bench.trials};
  if (!options.json) report.memory_bandwidth = lab::triad_bandwidth(session.team(), session.runtime().memory(), world);
  std::optional<Watch> watch;
  if (session.leads_process()) watch.emplace().attach(bench, session.lead());
  lab::bench_collectives(bench, session.runtime(), world, report);
  return report;
}

}  // namespace

int bench_collectives(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  check(options);
  if (options.latency) return compare_latency(options), 0;
  if (options.legacy) return run_legacy(options), 0;
  if (options.objects) return compare_objects(options), 0;
  const double started = now_seconds();
  const RankCount count = rank_count(options.ranks);
  const lab::CollectiveBenchOptions bench = bench_options(options, count);
  run_on_ranks({.ranks = count.to_start}, [&](Session& session) {
    lab::CollectiveReport report = measure(options, bench, session);
    report.elapsed = now_seconds() - started;
    if (session.lead()) print(options, report);
  });
  return 0;
}

}  // namespace lockstep::app
