#include "lab/saving/bench_checkpoint.h"

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
#include "io/file.h"
#include "io/page_cache.h"
#include "lab/machine.h"
#include "lab/step/step_training.h"
#include "train/saving/running_save.h"
#include "train/state.h"

namespace lockstep::lab {
namespace {

constexpr int steps_before = 2, steps_alone = 3;

Layout layout_of(const CheckpointOptions& options, int ranks) {
  Layout layout = data_parallel(ranks);
  layout::set_zero_level(layout.plan, options.zero);
  return layout;
}

/// A folder of the bench's own, the same on all ranks.
class Scratch {
 public:
  Scratch(comm::Communicator& world, const io::Path& in) : world_(world) {
    path_ = comm::lead_text(world, (in / fmt::format("lockstep-bench-checkpoint-{}", ::getpid())).string());
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
  Bench(const StepShape& shape, const CheckpointOptions& options, Runtime& runtime, ops::Ops& ops, comm::Communicator& world)
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
    saves_.push_back(slowest_of(save.durable_seconds, world_));
    bytes_ = save.bytes;
    raws_.push_back(slowest_of(write_raw(), world_));
    ratios_.push_back(raws_.back() / saves_.back());
    raw_reads_.push_back(slowest_of(read_raw(), world_));
    loads_.push_back(slowest_of(load(save.folder), world_));
    load_ratios_.push_back(raw_reads_.back() / loads_.back());
    save_beside();
  }

  CheckpointReport report() const {
    return {.shape = {},
            .bytes = bytes_,
            .save = median_of(saves_),
            .raw = median_of(raws_),
            .ratio = median_of(ratios_),
            .load = median_of(loads_),
            .raw_read = median_of(raw_reads_),
            .load_ratio = median_of(load_ratios_),
            .beside = median_of(besides_),
            .waited = median_of(waits_),
            .waited_share = median_of(shares_),
            .step = median_of(steps_),
            .step_beside = median_of(steps_beside_),
            .copies = training_.engine().copies().elements()};
  }

 private:
  double timed_step() {
    train::StepResult result;
    return slowest_of(training_.timed_step(result), world_);
  }

  /// What the checkpoint has, in pieces from one that the caches have not: this rank's share, in a file of its own.
  double write_raw() {
    const Tensor& from = training_.engine().copies();
    world_.barrier();
    const double start = now_seconds();
    io::File file = io::File::create(raw_path());
    for (std::uint64_t at = 0; at < raw_share(); at += piece) {
      const auto first = static_cast<std::int64_t>(at) % (from.elements() - checkpoint::part_bytes + 1);
      file.write_at(at, {from.data + first, std::min(piece, raw_share() - at)});
    }
    file.sync_data();
    file.close();
    return now_seconds() - start;
  }
  /// Reads write_raw()'s file from the device, and removes it.
  double read_raw() {
    io::drop_cached(raw_path());
    std::vector<std::byte> to(piece);
    world_.barrier();
    const double start = now_seconds();
    {
      const io::File file = io::File::open_to_read(raw_path());
      for (std::uint64_t at = 0; at < raw_share(); at += piece)
        file.read_at(at, std::span(to).first(std::min(piece, raw_share() - at)));
    }
    const double seconds = now_seconds() - start;
    std::filesystem::remove(raw_path());
    return seconds;
  }
  io::Path raw_path() const { return scratch_.path() / fmt::format("raw_{}", world_.rank()); }
  std::uint64_t raw_share() const { return bytes_ / static_cast<std::uint64_t>(world_.size()); }

  /// Loads the checkpoint into the engine, from the device.
  double load(const io::Path& checkpoint) {
    world_.barrier();
    if (world_.rank() == 0)
      for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) io::drop_cached(entry.path());
    world_.barrier();
    const double start = now_seconds();
    train::load_run(checkpoint::Reader(checkpoint), training_.engine(), world_, team_);
    return now_seconds() - start;
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
      besides_.push_back(slowest_of(report->durable_seconds, world_));
      waits_.push_back(slowest_of(report->waited_seconds, world_));
      shares_.push_back(waits_.back() / besides_.back());
      return;
    }
  }

  static constexpr auto piece = static_cast<std::uint64_t>(checkpoint::part_bytes);

  comm::Communicator& world_;
  Team& team_;
  Scratch scratch_;
  StepTraining training_;
  std::int64_t saved_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<double> saves_, raws_, ratios_, loads_, raw_reads_, load_ratios_, besides_, waits_, shares_, steps_, steps_beside_;
};

}  // namespace

CheckpointReport bench_checkpoint(const StepShape& shape, const CheckpointOptions& options, Runtime& runtime, ops::Ops& ops,
                                  comm::Communicator& world) {
  if (std::vector<Problem> problems = check(shape, layout_of(options, world.size()), world.size()); !problems.empty())
    throw UserError(std::move(problems));
  Bench bench(shape, options, runtime, ops, world);
  for (int round = 0; round < options.rounds; ++round) bench.round();
  CheckpointReport report = bench.report();
  report.shape = shape;
  report.ranks = world.size();
  report.zero = options.zero;
  return report;
}

Answer answer_of(const CheckpointReport& report) {
  Answer answer;
  answer.facts({{"shape", report.shape.name},
                {"ranks", report.ranks},
                {"zero", report.zero},
                {"bytes", report.bytes},
                {"save_s", report.save},
                {"raw_s", report.raw},
                {"raw_ratio", report.ratio},
                {"load_s", report.load},
                {"raw_read_s", report.raw_read},
                {"load_ratio", report.load_ratio},
                {"beside_s", report.beside},
                {"waited_s", report.waited},
                {"waited_share", report.waited_share},
                {"step_s", report.step},
                {"step_beside_s", report.step_beside}});
  answer.say(fmt::format("{}: {} rank{}, memory.zero={}, a checkpoint of {}\n", report.shape.name, report.ranks,
                         report.ranks == 1 ? "" : "s", report.zero, format_bytes(report.bytes)));
  Table table({{""}, {"", "ms", "{:.1f}", 1e3}, {"", "GB/s", "{:.3f}"}, {"", "of raw", "{:.0f} %", 100}, {""}});
  const Cell none(nullptr, "");
  const auto copies = format_bytes(static_cast<std::uint64_t>(report.copies));
  table.row({"save", report.save, report.rate(report.save), report.ratio, "until it is durable; training waits for all of it"});
  table.row({"save beside", report.beside, report.rate(report.beside), none,
             fmt::format("checkpoint.async; copies of up to {} a rank", copies)});
  table.row({"training waits", report.waited, none, none, fmt::format("{:.1f} % of a save beside", 100 * report.waited_share)});
  table.row({"raw write", report.raw, report.rate(report.raw), none, "the same bytes, then fdatasync"});
  table.row({"load", report.load, report.rate(report.load), report.load_ratio,
             "into weights and optimizer, every byte verified, none cached before"});
  table.row({"raw read", report.raw_read, report.rate(report.raw_read), none, "the same bytes, none cached before"});
  table.row({"step", report.step, none, none, "alone"});
  table.row({"step beside", report.step_beside, none, none, fmt::format("{:.2f} times that", report.step_beside / report.step)});
  answer.table("", table);
  return answer;
}

}  // namespace lockstep::lab
