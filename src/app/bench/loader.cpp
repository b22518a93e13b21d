// `lockstep bench loader`: what threads of the data loader are worth.

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "base/number_text.h"
#include "lab/data_loading/bench_loader.h"

namespace lockstep::app {
namespace {

/// Numbers of threads, 0 to 64, with commas between.
std::vector<int> loader_workers(const std::string& list, BenchLine& line) {
  constexpr int most = 64;
  std::vector<int> counts;
  for (const std::string& part : parts_of_list(list)) counts.push_back(number_from<int>(part).value_or(-1));
  line.demand(std::ranges::all_of(counts, [](int count) { return count >= 0 && count <= most; }),
              fmt::format("--workers {}: must be whole numbers from 0 to {} with commas between", list, most),
              "--workers 0,1,2,3,4");
  return counts;
}

std::optional<Answer> run_loader(BenchLine& line) {
  constexpr double most_ms = 60'000;
  lab::LoaderBenchOptions options;
  std::string workers = "0,1,2,3,4";
  double item_ms = 5, compute_ms = 40;
  line.option("--workers", workers, "A,B,C", "threads of the loader; 0: a batch is made when it is asked for");
  line.count("--items", options.items, "N", "of a run, a multiple of --batch", 1, 10'000'000);
  line.count("--batch", options.batch, "N", "items of a batch");
  line.option("--item-ms", item_ms, "MS", "that an item takes to make, beside being read; 0: this code's own time alone");
  line.option("--compute-ms", compute_ms, "MS", "of a batch's computation");
  line.ask_rounds(options.rounds, "each of which measures every number of workers once");
  if (!line.read()) return {};
  options.workers = loader_workers(workers, line);
  line.demand(options.batch < 1 || options.items % options.batch == 0,
              fmt::format("--items {}: must be a multiple of --batch {}", options.items, options.batch),
              fmt::format("--items {}", 10 * options.batch));
  line.demand(item_ms >= 0 && item_ms <= most_ms, fmt::format("--item-ms {}: must be from 0 to 60000", item_ms), "--item-ms 5");
  line.demand(compute_ms >= 0 && compute_ms <= most_ms, fmt::format("--compute-ms {}: must be from 0 to 60000", compute_ms),
              "--compute-ms 40");
  line.check();
  options.item_seconds = 1e-3 * item_ms;
  options.compute_seconds = 1e-3 * compute_ms;
  ProgressBar bar = line.bar(static_cast<double>(options.workers.size()) * options.rounds);
  double done = 0;
  options.progress = [&] { bar.update(++done, ""); };
  return answer_of(options, lab::bench_loader(options));
}

}  // namespace

Bench loader_bench() {
  return {
      "loader", "what threads of the data loader are worth",
      "Times runs over items that each take a while to make, in batches that a computation follows. Several numbers of loader "
      "threads (data.workers) take turns. Figures are seconds of a run less its computations, as ml-engineering counts them for "
      "PyTorch's DataLoader.",
      "examples:\n  lockstep bench loader\n  # the sizes of ml-engineering:\n"
      "  lockstep bench loader --items 1000 --batch 100 --compute-ms 200 --rounds 10",
      run_loader};
}

}  // namespace lockstep::app
