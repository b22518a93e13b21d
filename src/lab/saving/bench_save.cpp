#include "lab/saving/bench_save.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/median.h"
#include "base/timer.h"
#include "base/units.h"
#include "comm/agreement.h"
#include "comm/text.h"
#include "lab/step/step_training.h"
#include "train/saving/running_save.h"

namespace lockstep::lab {
namespace {

constexpr int steps_before = 2, steps_alone = 3;

Layout layout_of(const SaveOptions& options, int ranks) {
  Layout layout = data_parallel(ranks);
  layout::set_zero_level(layout.plan, options.zero);
  return layout;
}

void check(const StepShape& shape, const SaveOptions& options, int ranks) {
  std::vector<Problem> problems;
  if (options.rounds < 1) problems.push_back({fmt::format("--rounds {}: must be at least 1", options.rounds), "--rounds 5"});
  if (options.zero < 0 || options.zero > 3)
    problems.push_back({fmt::format("--zero {}: must be 0, 1, 2 or 3", options.zero), "--zero 1 cuts the optimizer's state"});
  if (!std::filesystem::is_directory(options.folder)) {
    problems.push_back({fmt::format("--folder {}: there is no such folder", options.folder.string()),
                        "name one on the disk that is to be measured"});
  }
  if (problems.empty()) problems = check(shape, layout_of(options, ranks), ranks);
  if (!problems.empty()) throw UserError(std::move(problems));
}

/// A folder of the bench's own, the same on all ranks.
class Scratch {
 public:
  Scratch(comm::Communicator& world, const io::Path& in) : world_(world) {
    path_ = comm::lead_text(world, (in / fmt::format("lockstep-bench-save-{}", ::getpid())).string());
    comm::together(world, [&] {
      if (world.rank() == 0) io::make_folders(path_);
    });
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  const io::Path& path() const { return path_; }

 private:
  comm::Communicator& world_;
  io::Path path_;
};

class Bench {
 public:
  Bench(const StepShape& shape, const SaveOptions& options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world)
      : world_(world),
        team_(runtime.team()),
        scratch_(world, options.folder),
        training_(shape, runtime, ops, world, {.layout = layout_of(options, world.size()), .saves_beside = true}) {
    for (int i = 0; i < steps_before; ++i) training_.step();
  }

  void round() {
    for (int i = 0; i < steps_alone; ++i) steps_.push_back(timed_step());
    const checkpoint::SaveReport save =
        train::save_run(scratch_.path(), training_.engine(), {.step = ++saved_}, Json::Object{}, team_);
    saves_.push_back(slowest(save.durable_seconds));
    bytes_ = save.bytes;
    raws_.push_back(slowest(write_raw()));
    ratios_.push_back(raws_.back() / saves_.back());
    save_beside();
  }

  SaveBenchReport report() const {
    return {.shape = {},
            .bytes = bytes_,
            .save = median_of(saves_),
            .raw = median_of(raws_),
            .ratio = median_of(ratios_),
            .beside = median_of(besides_),
            .waited = median_of(waits_),
            .waited_share = median_of(shares_),
            .step = median_of(steps_),
            .step_beside = median_of(steps_beside_),
            .copies = training_.engine().copies().elements()};
  }

 private:
  double slowest(double seconds) const {
    world_.host().all_reduce(view(std::span(&seconds, 1), Shape{1}), comm::Reduction::max).wait();
    return seconds;
  }
  double timed_step() {
    train::StepResult result;
    return slowest(training_.timed_step(result));
  }

  /// What the checkpoint has, in pieces from one that the caches have not: this rank's share, in a file of its own.
  double write_raw() {
    const std::uint64_t ranks = static_cast<std::uint64_t>(world_.size()), share = bytes_ / ranks;
    const io::Path path = scratch_.path() / fmt::format("raw_{}", world_.rank());
    const Tensor& from = training_.engine().copies();
    world_.barrier();
    const double start = now_seconds();
    {
      io::File file = io::File::create(path);
      const auto piece = static_cast<std::uint64_t>(checkpoint::part_bytes);
      for (std::uint64_t at = 0; at < share; at += piece) {
        const auto first = static_cast<std::int64_t>(at) % (from.elements() - checkpoint::part_bytes + 1);
        file.write_at(at, {from.data + first, std::min(piece, share - at)});
      }
      file.sync_data();
      file.close();
    }
    const double seconds = now_seconds() - start;
    std::filesystem::remove(path);
    world_.barrier();
    return seconds;
  }

  /// Steps until the checkpoint is durable, as the trainer takes them.
  void save_beside() {
    train::RunningSave save(scratch_.path(), training_.engine(), {.step = ++saved_}, Json::Object{}, team_);
    while (true) {
      steps_beside_.push_back(timed_step());
      std::int64_t busy = save.busy() ? 1 : 0;
      world_.host().all_reduce(view(std::span(&busy, 1), Shape{1}), comm::Reduction::max).wait();
      if (busy != 0) continue;
      const auto report = save.advance();
      if (!report) continue;
      besides_.push_back(slowest(report->durable_seconds));
      waits_.push_back(slowest(report->waited_seconds));
      shares_.push_back(waits_.back() / besides_.back());
      return;
    }
  }

  comm::Communicator& world_;
  Team& team_;
  Scratch scratch_;
  StepTraining training_;
  std::int64_t saved_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<double> saves_, raws_, ratios_, besides_, waits_, shares_, steps_, steps_beside_;
};

}  // namespace

SaveBenchReport bench_save(const StepShape& shape, const SaveOptions& options, Runtime& runtime, ops::Ops& ops,
                           comm::Communicator& world) {
  check(shape, options, world.size());
  Bench bench(shape, options, runtime, ops, world);
  for (int round = 0; round < options.rounds; ++round) bench.round();
  SaveBenchReport report = bench.report();
  report.shape = shape;
  report.ranks = world.size();
  report.zero = options.zero;
  return report;
}

std::string to_text(const SaveBenchReport& report) {
  std::string text = fmt::format("{}: {} rank{}, memory.zero={}, a checkpoint of {}\n", report.shape.name, report.ranks,
                                 report.ranks == 1 ? "" : "s", report.zero, format_bytes(report.bytes));
  const auto line = [&](const char* name, double seconds, const std::string& meaning) {
    text += fmt::format("{:<15}{:>9.1f} ms   {}\n", name, 1e3 * seconds, meaning);
  };
  line("save", report.save, fmt::format("{}/s, until it is durable", format_bytes(static_cast<std::uint64_t>(report.rate()))));
  line("raw", report.raw,
       fmt::format("{}/s, the same bytes with fdatasync; save has {:.0f} % of this rate",
                   format_bytes(static_cast<std::uint64_t>(report.raw_rate())), 100 * report.ratio));
  line("save beside", report.beside,
       fmt::format("checkpoint.async; copies of up to {} a rank", format_bytes(static_cast<std::uint64_t>(report.copies))));
  line("training waits", report.waited, fmt::format("{:.1f} % of that", 100 * report.waited_share));
  line("step", report.step, "alone");
  line("step beside", report.step_beside, fmt::format("{:.2f} times that", report.step_beside / report.step));
  return text;
}

Json to_json(const SaveBenchReport& report) {
  return Json::Object{{"shape", report.shape.name}, {"ranks", report.ranks},
                      {"zero", report.zero},        {"bytes", static_cast<std::int64_t>(report.bytes)},
                      {"save_s", report.save},      {"raw_s", report.raw},
                      {"raw_ratio", report.ratio},  {"beside_s", report.beside},
                      {"waited_s", report.waited},  {"waited_share", report.waited_share},
                      {"step_s", report.step},      {"step_beside_s", report.step_beside}};
}

}  // namespace lockstep::lab
