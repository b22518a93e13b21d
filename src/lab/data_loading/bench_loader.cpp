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

std::vector<LoaderRow> bench_loader(const LoaderBenchOptions& options) {
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

Answer answer_of(const LoaderBenchOptions& options, const std::vector<LoaderRow>& rows) {
  Answer answer;
  answer.facts({{"items", options.items},
                {"batch", options.batch},
                {"item_s", options.item_seconds},
                {"compute_s", options.compute_seconds},
                {"rounds", options.rounds}});
  answer.say(fmt::format("{} items of {:g} ms in batches of {}, {:g} ms of computation after each batch, {} rounds\n\n",
                         options.items, 1e3 * options.item_seconds, options.batch, 1e3 * options.compute_seconds,
                         options.rounds));
  Table table({{"workers", "data.workers"},
               {"seconds", "seconds", "{:.3f}"},
               {"least_seconds", "least", "{:.3f}"},
               {"most_seconds", "most", "{:.3f}"},
               {"at_best_seconds", "at best", "{:.3f}"},
               {"waited_seconds", "a step"}});
  for (const LoaderRow& row : rows) {
    const auto [least, most] = std::ranges::minmax(row.seconds);
    const double waited = median_of(row.waited);
    table.row({row.workers,
               row.median(),
               least,
               most,
               least_loading_seconds(options, row.workers),
               {waited, fmt::format("{:.1f} ms", 1e3 * waited / static_cast<double>(options.batches()))}});
  }
  answer.table("rows", table);
  answer.say(
      "\nseconds: of a run less its computations, the median of rounds; at best: what that many workers leave when nothing\n"
      "else takes time; a step: what it waits for its batch. Items and computations pass without work: they need no core.\n");
  return answer;
}

}  // namespace lockstep::lab
