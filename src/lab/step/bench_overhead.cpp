#include "lab/step/bench_overhead.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/median.h"
#include "base/timer.h"
#include "base/units.h"
#include "io/file.h"
#include "lab/machine.h"
#include "lab/step/step_training.h"
#include "train/report/metrics_file.h"
#include "train/report/run_trace.h"

namespace lockstep::lab {
namespace {

constexpr int warm_up_rounds = 2;

class OverheadBench {
 public:
  OverheadBench(const StepShape& shape, const OverheadOptions& options, Runtime& runtime, ops::Ops& ops,
                comm::Communicator& world)
      : world_(world),
        file_(options.folder / fmt::format("lockstep-bench-overhead-{}.jsonl", ::getpid())),
        traced_ops_(options.observed_ops(spans_)),
        plain_(shape, runtime, ops, world, {.layout = data_parallel(world.size())}),
        traced_(shape, runtime, *traced_ops_, world, {.layout = data_parallel(world.size()), .traced_steps = 1}) {
    if (world.rank() == 0) metrics_.emplace(file_, "bench");
  }
  OverheadBench(const OverheadBench&) = delete;
  OverheadBench& operator=(const OverheadBench&) = delete;
  ~OverheadBench() {
    world_.observe(nullptr);
    spans_.log().close();  // its room goes with the engine
    std::error_code ignored;
    if (metrics_) std::filesystem::remove(file_, ignored);
  }

  /// Seconds of a step of the kind, on the slowest rank.
  double seconds_of(std::size_t kind) {
    world_.barrier();
    const double start = now_seconds();
    const train::StepResult result = kind == 2 ? traced_step() : plain_.step();
    if (kind > 0) {
      train::Metrics metrics = train::measure(plain_.engine(), result, now_seconds() - start);
      metrics.step = ++lines_;
      metrics.ranks = train::gather_times(metrics, world_);
      if (metrics_) metrics_->logged(metrics);
    }
    return slowest_of(now_seconds() - start, world_);
  }
  std::int64_t spans() { return std::ssize(spans_.log().spans()); }

 private:
  train::StepResult traced_step() {
    SpanLog& log = spans_.log();
    traced_.engine().observe(log);  // its room is empty again
    world_.observe(&log);
    log.turn(true);
    const double begun = now_seconds();
    train::StepResult result = traced_.step();
    log.add({SpanKind::step, "step", begun, now_seconds()});
    log.turn(false);
    world_.observe(nullptr);
    return result;
  }

  comm::Communicator& world_;
  io::Path file_;  // of metrics; it goes with this
  train::OpSpans spans_;
  std::unique_ptr<ops::Ops> traced_ops_;
  StepTraining plain_, traced_;
  std::optional<train::MetricsFile> metrics_;
  std::int64_t lines_ = 0;
};

}  // namespace

Quartiles quartiles_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = (values.size() + 1) / 2;  // the middle one is in both halves
  const auto part = [&](auto first, auto end) { return median_of(std::vector<double>(first, end)); };
  return {.lower = part(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half)),
          .median = median_of(values),
          .upper = part(values.end() - static_cast<std::ptrdiff_t>(half), values.end())};
}

Quartiles OverheadReport::overhead(std::size_t kind) const {
  std::vector<double> parts;
  for (std::size_t round = 0; round < seconds[0].size(); ++round) parts.push_back(seconds[kind][round] / seconds[0][round] - 1);
  return quartiles_of(std::move(parts));
}

OverheadReport bench_overhead(const StepShape& shape, const OverheadOptions& options, Runtime& runtime, ops::Ops& ops,
                              comm::Communicator& world) {
  if (std::vector<Problem> problems = check(shape, data_parallel(world.size()), world.size()); !problems.empty())
    throw UserError(std::move(problems));
  OverheadReport report{.shape = shape, .ranks = world.size(), .seconds = {}};
  OverheadBench bench(shape, options, runtime, ops, world);
  constexpr std::size_t kinds = overhead_kinds.size();
  for (int round = -warm_up_rounds; round < options.rounds; ++round) {
    // Each kind follows each other one as often.
    for (std::size_t i = 0; i < kinds; ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round + warm_up_rounds)) % kinds;
      const double seconds = bench.seconds_of(turn);
      if (round >= 0) report.seconds[turn].push_back(seconds);
    }
  }
  report.spans = bench.spans();
  return report;
}

Answer answer_of(const OverheadReport& report) {
  const auto quartiles = [](const Quartiles& of) {
    return Json(Json::Object{{"lower", of.lower}, {"median", of.median}, {"upper", of.upper}});
  };
  Answer answer;
  answer.say(fmt::format("{}, {} rank{}, {} rounds of a step of each kind, a line of metrics a step, {} spans\n\n",
                         report.shape.name, report.ranks, report.ranks == 1 ? "" : "s", report.seconds[0].size(),
                         format_count(report.spans)));
  Table table(
      {{""}, {"", "step", "{:.3f} ms", 1e3}, {"", "middle half"}, {"", "overhead", "{:+.2f} %", 100}, {"", "middle half"}});
  Json::Array kinds;
  for (std::size_t kind = 0; kind < overhead_kinds.size(); ++kind) {
    const Quartiles step = quartiles_of(report.seconds[kind]);
    Json row(Json::Object{{"kind", overhead_kinds[kind]}, {"seconds", quartiles(step)}});
    std::vector<Cell> cells{overhead_kinds[kind], step.median,
                            fmt::format("{:.3f} to {:.3f} ms", 1e3 * step.lower, 1e3 * step.upper)};
    if (kind > 0) {
      const Quartiles more = report.overhead(kind);
      row.set("overhead", quartiles(more));
      cells.insert(cells.end(), {more.median, fmt::format("{:+.2f} to {:+.2f} %", 100 * more.lower, 100 * more.upper)});
    }
    table.row(std::move(cells));
    kinds.push_back(std::move(row));
  }
  answer.table("", table);
  answer.say("\noverhead: over the step alone of the same round\n");
  answer.facts({{"shape", report.shape.name},
                {"ranks", report.ranks},
                {"rounds", std::ssize(report.seconds[0])},
                {"spans", report.spans},
                {"kinds", std::move(kinds)}});
  return answer;
}

}  // namespace lockstep::lab
