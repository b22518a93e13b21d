// `lockstep bench io|loader`: how fast ranks get their batches from a file, and what threads of the data loader are worth.

#include <fmt/format.h>

#include <optional>
#include <string>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/fitness/fitness.h"
#include "app/session.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/terminal.h"
#include "base/units.h"
#include "comm/mpi/mpi_job.h"
#include "lab/data_loading/bench_io.h"
#include "lab/data_loading/bench_loader.h"

namespace lockstep::app {
namespace {

struct IoCommandOptions {
  std::string io = "all", folder = ".", bytes = "256MiB";
  std::optional<std::int64_t> ranks;
  std::int64_t samples = 8, positions = 1024, readers = 1, workers = 1, rounds = 3;
  bool json = false;
};

bool parse(const Arguments& arguments, IoCommandOptions& options) {
  CommandLine line(
      "bench io",
      "Times one pass over a file of tokens that nothing has cached: every rank gets its batches each way that data.io "
      "knows, beside the same bytes read in order. On 1, 2, 4, ... ranks; under mpiexec on those it started, and by "
      "MPI-IO too.");
  line.choice("--io", options.io, {"all", "files", "readers", "mpi"}, "which way");
  line.option("--folder", options.folder, "DIR", "on the disk that is measured; what is written there is deleted again");
  line.option("--bytes", options.bytes, "SIZE", "of the file");
  line.option("--ranks", options.ranks, "N", "the most ranks (default: the cores)");
  line.option("--batch", options.samples, "N", "samples of a rank's batch");
  line.option("--seq", options.positions, "T", "tokens of a sample");
  line.option("--readers", options.readers, "N", "ranks that read and scatter, as data.readers; with --io readers");
  line.option("--workers", options.workers, "N", "as data.workers");
  line.option("--rounds", options.rounds, "N", "of each measurement");
  line.flag("--json", options.json, "one line of JSON");
  line.note("examples:\n  lockstep bench io --folder /scratch --bytes 4GiB\n  mpiexec -n 4 lockstep bench io --io mpi");
  return line.parse(arguments);
}

lab::IoBenchOptions bench_options(const IoCommandOptions& options, bool mpi) {
  const auto bytes = bytes_from(options.bytes);
  if (!bytes) throw UserError(fmt::format("--bytes {}: not a number of bytes", options.bytes), "--bytes 256MiB");
  if (options.io == "mpi" && !mpi) {
    throw UserError("--io mpi: ranks that read by MPI-IO are processes of an MPI job", "mpiexec -n 4 lockstep bench io --io mpi");
  }
  lab::IoBenchOptions bench{.folder = options.folder,
                            .bytes = static_cast<std::int64_t>(*bytes),
                            .samples = options.samples,
                            .positions = options.positions,
                            .readers = static_cast<int>(options.readers),
                            .workers = static_cast<int>(options.workers),
                            .rounds = static_cast<int>(options.rounds)};
  for (const std::string way : {"files", "readers", "mpi"})
    if (options.io == way || (options.io == "all" && (way != "mpi" || mpi))) bench.ways.push_back(way);
  return bench;
}

}  // namespace

int bench_io(const Arguments& arguments) {
  IoCommandOptions options;
  if (!parse(arguments, options)) return 0;
  const bool mpi = comm::find_mpi_job().has_value();
  const lab::IoBenchOptions bench = bench_options(options, mpi);
  const RankCount most = rank_count(options.ranks);
  // The job's ranks, or 1, 2, 4, ... and the most.
  std::vector<std::int64_t> counts;
  for (std::int64_t ranks = 1; !mpi && ranks < most.to_start; ranks *= 2)
    if (ranks % std::max<std::int64_t>(options.readers, 1) == 0) counts.push_back(ranks);
  counts.push_back(most.to_start);
  std::vector<lab::IoRow> rows;
  for (const std::int64_t ranks : counts) {
    run_on_ranks({.ranks = ranks}, [&](Session& session) {
      const std::vector<lab::IoRow> found = lab::bench_io(bench, session.world());
      if (session.lead()) rows.insert(rows.end(), found.begin(), found.end());
    });
  }
  if (is_first_process()) fmt::print("{}", options.json ? lab::to_json(bench, rows).dump() + "\n" : lab::to_text(bench, rows));
  return 0;
}

namespace {

std::vector<int> counts_of_workers(const std::string& list) {
  std::vector<int> counts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const auto count = number_from<int>(std::string_view(list).substr(at, comma - at));
    if (!count)
      throw UserError(fmt::format("--workers {}: must be whole numbers with commas between", list), "--workers 0,1,2,3,4");
    counts.push_back(*count);
    at = comma + 1;
  }
  return counts;
}

}  // namespace

int bench_loader(const Arguments& arguments) {
  lab::LoaderBenchOptions options;
  std::string workers = "0,1,2,3,4";
  std::int64_t rounds = options.rounds;
  double item_ms = 5, compute_ms = 40;
  bool json = false;
  CommandLine line("bench loader",
                   "Times runs over items that each take a while to make, in batches that a computation follows, with several "
                   "numbers of loader threads (data.workers) in turns: seconds of a run less its computations, as "
                   "ml-engineering counts them for PyTorch's DataLoader.");
  line.option("--workers", workers, "A,B,C", "threads of the loader; 0: a batch is made when it is asked for");
  line.option("--items", options.items, "N", "of a run, a multiple of --batch");
  line.option("--batch", options.batch, "N", "items of a batch");
  line.option("--item-ms", item_ms, "MS", "that an item takes to make, beside being read; 0: this code's own time alone");
  line.option("--compute-ms", compute_ms, "MS", "of a batch's computation");
  line.option("--rounds", rounds, "N", "each of which measures every number of workers once");
  line.flag("--json", json, "one line of JSON");
  line.note(
      "examples:\n  lockstep bench loader\n  lockstep bench loader --items 1000 --batch 100 --compute-ms 200 --rounds 10  (the "
      "sizes of ml-engineering)");
  if (!line.parse(arguments)) return 0;
  options.workers = counts_of_workers(workers);
  options.item_seconds = 1e-3 * item_ms;
  options.compute_seconds = 1e-3 * compute_ms;
  options.rounds = static_cast<int>(rounds);
  ProgressBar bar(stderr, "bench loader", static_cast<double>(options.workers.size()) * static_cast<double>(rounds));
  double done = 0;
  options.progress = [&] { bar.update(++done, ""); };
  const std::vector<lab::LoaderRow> rows = lab::bench_loader(options);
  bar.finish();
  fmt::print("{}", json ? lab::to_json(options, rows).dump() + "\n" : lab::to_text(options, rows));
  return 0;
}

}  // namespace lockstep::app
