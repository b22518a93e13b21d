#include "lab/data_loading/bench_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/median.h"
#include "base/timer.h"
#include "data/loader.h"
#include "device/memory.h"
#include "tensor/arena.h"

namespace lockstep::lab {
namespace {

constexpr data::TokenFormat format{.token_bytes = 2, .vocabulary = 50304};

void pass(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Zeros, which take a while to come: a window that is read waits, the one target behind it does not.
class SlowBytes final : public io::ByteSource {
 public:
  SlowBytes(std::uint64_t size, double seconds) : size_(size), seconds_(seconds) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t /*offset*/, std::span<std::byte> out) const override {
    if (waits_ && out.size() > static_cast<std::size_t>(format.token_bytes)) pass(seconds_);
    std::ranges::fill(out, std::byte{0});
  }
  /// The file's start is looked at when it is opened.
  void begin() { waits_ = true; }

 private:
  std::uint64_t size_;
  double seconds_;
  bool waits_ = false;
};

struct Run {
  double seconds, waited;
};

Run run_once(const LoaderBenchOptions& options, int workers) {
  const std::int64_t tokens = options.items * options.positions + 1;
  auto bytes = std::make_unique<SlowBytes>(static_cast<std::uint64_t>(tokens * format.token_bytes), options.item_seconds);
  SlowBytes& slow = *bytes;
  const data::TokenFile file("items", format, std::move(bytes));
  slow.begin();
  data::Loader loader(file, data::whole_file_sampler(file, options.positions),
                      {.samples = options.batch, .positions = options.positions}, workers);
  Ledger ledger;
  Arena arena("bench loader", MemoryKind::data);
  loader.declare(arena);
  arena.commit(host_memory(), ledger);
  const double start = now_seconds();
  loader.start(0, 0);
  for (std::int64_t batch = 0; batch < options.batches(); ++batch) {
    loader.next();
    pass(options.compute_seconds);
  }
  const double computed = static_cast<double>(options.batches()) * options.compute_seconds;
  return {now_seconds() - start - computed, loader.waited_seconds()};
}

}  // namespace

double LoaderRow::median() const { return median_of(seconds); }

double least_loading_seconds(const LoaderBenchOptions& options, int workers) {
  const double making = static_cast<double>(options.items) * options.item_seconds;
  if (workers == 0) return making;
  // The first batch is waited for, and the last computation has nothing beside it.
  const double first = static_cast<double>(options.batch) * options.item_seconds;
  const double computed = static_cast<double>(options.batches() - 1) * options.compute_seconds;
  return std::max(first, making / std::min<double>(workers, static_cast<double>(options.batches())) - computed);
}

std::vector<Problem> check(const LoaderBenchOptions& options) {
  std::vector<Problem> problems;
  const auto demand = [&](bool holds, std::string message, std::string remedy) {
    if (!holds) problems.push_back({std::move(message), std::move(remedy)});
  };
  constexpr int most_workers = 64;
  constexpr double most_seconds = 60;
  for (const int workers : options.workers)
    demand(workers >= 0 && workers <= most_workers, fmt::format("--workers {}: must be from 0 to {}", workers, most_workers),
           "--workers 0,1,2,3,4");
  demand(options.batch >= 1, fmt::format("--batch {}: must be at least 1", options.batch), "--batch 20");
  demand(
      options.batch < 1 || (options.items >= options.batch && options.items % options.batch == 0 && options.items <= 10'000'000),
      fmt::format("--items {}: must be a multiple of --batch {}, at most 10000000", options.items, options.batch),
      fmt::format("--items {}", 10 * options.batch));
  demand(options.item_seconds >= 0 && options.item_seconds <= most_seconds,
         fmt::format("--item-ms {}: must be from 0 to 60000", 1e3 * options.item_seconds), "--item-ms 5");
  demand(options.compute_seconds >= 0 && options.compute_seconds <= most_seconds,
         fmt::format("--compute-ms {}: must be from 0 to 60000", 1e3 * options.compute_seconds), "--compute-ms 40");
  demand(options.rounds >= 1, fmt::format("--rounds {}: must be at least 1", options.rounds), "--rounds 5");
  return problems;
}

std::vector<LoaderRow> bench_loader(const LoaderBenchOptions& options) {
  if (auto problems = check(options); !problems.empty()) throw UserError(std::move(problems));
  std::vector<LoaderRow> rows;
  for (const int workers : options.workers) rows.push_back({workers, {}, {}});
  for (int round = 0; round < options.rounds; ++round) {
    for (LoaderRow& row : rows) {
      const Run run = run_once(options, row.workers);
      row.seconds.push_back(run.seconds);
      row.waited.push_back(run.waited);
      if (options.progress) options.progress();
    }
  }
  return rows;
}

std::string to_text(const LoaderBenchOptions& options, const std::vector<LoaderRow>& rows) {
  std::string text = fmt::format(
      "{} items of {:g} ms in batches of {}, {:g} ms of computation after each batch, {} rounds\n\n"
      "{:>12} {:>9} {:>17} {:>9} {:>9}\n",
      options.items, 1e3 * options.item_seconds, options.batch, 1e3 * options.compute_seconds, options.rounds, "data.workers",
      "seconds", "least - most", "at best", "a step");
  for (const LoaderRow& row : rows) {
    const auto [least, most] = std::ranges::minmax(row.seconds);
    text += fmt::format("{:>12} {:>9.3f} {:>17} {:>9.3f} {:>6.1f} ms\n", row.workers, row.median(),
                        fmt::format("{:.3f} - {:.3f}", least, most), least_loading_seconds(options, row.workers),
                        1e3 * median_of(row.waited) / static_cast<double>(options.batches()));
  }
  return text +
         "\nseconds: of a run less its computations, the median of rounds; at best: what that many workers leave when nothing\n"
         "else takes time; a step: what it waits for its batch. Items and computations pass without work: they need no core.\n";
}

Json to_json(const LoaderBenchOptions& options, const std::vector<LoaderRow>& rows) {
  Json::Array all;
  for (const LoaderRow& row : rows) {
    all.push_back(Json::Object{{"workers", row.workers},
                               {"seconds", row.median()},
                               {"least_seconds", std::ranges::min(row.seconds)},
                               {"most_seconds", std::ranges::max(row.seconds)},
                               {"at_best_seconds", least_loading_seconds(options, row.workers)},
                               {"waited_seconds", median_of(row.waited)}});
  }
  return Json::Object{{"items", options.items},         {"batch", options.batch},
                      {"item_s", options.item_seconds}, {"compute_s", options.compute_seconds},
                      {"rounds", options.rounds},       {"rows", std::move(all)}};
}

}  // namespace lockstep::lab
