// `lockstep bench io`: how fast ranks get their batches from a file.

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "base/units.h"
#include "comm/mpi/mpi_job.h"
#include "lab/data_loading/bench_io.h"

namespace lockstep::app {
namespace {

std::optional<Answer> run_io(BenchLine& line) {
  constexpr std::int64_t most = 1 << 20;
  std::string io = "all", bytes = "256MiB";
  lab::IoBenchOptions options;
  line.choice("--io", io, {"all", "files", "readers", "mpi"}, "which way");
  line.ask_folder();
  line.option("--bytes", bytes, "SIZE", "of the file");
  line.ask_ranks();
  line.count("--batch", options.samples, "N", "samples of a rank's batch", 1, most);
  line.count("--seq", options.positions, "T", "tokens of a sample", 1, most);
  line.count("--readers", options.readers, "N", "ranks that read and scatter, as data.readers; with --io readers");
  line.count("--workers", options.workers, "N", "as data.workers", 0, 64);
  line.ask_rounds(options.rounds, "of each measurement");
  if (!line.read()) return {};
  const bool mpi = comm::find_mpi_job().has_value();
  const auto size = bytes_from(bytes);
  line.demand(size.has_value(), fmt::format("--bytes {}: not a number of bytes", bytes), "--bytes 256MiB");
  line.demand(io != "mpi" || mpi, "--io mpi: ranks that read by MPI-IO are processes of an MPI job",
              "mpiexec -n 4 lockstep bench io --io mpi");
  line.check();
  options.folder = line.folder();
  options.bytes = static_cast<std::int64_t>(*size);
  for (const std::string way : {"files", "readers", "mpi"})
    if (io == way || (io == "all" && (way != "mpi" || mpi))) options.ways.push_back(way);
  // The job's ranks, or 1, 2, 4, ... and the most.
  std::vector<std::int64_t> counts;
  for (std::int64_t ranks = 1; !mpi && ranks < line.ranks().to_start; ranks *= 2)
    if (ranks % options.readers == 0) counts.push_back(ranks);
  counts.push_back(line.ranks().to_start);
  std::vector<lab::IoRow> rows;
  for (const std::int64_t ranks : counts) {
    run_on_ranks({.ranks = ranks}, [&](Session& session) {
      const std::vector<lab::IoRow> found = lab::bench_io(options, session.world());
      if (session.lead()) rows.insert(rows.end(), found.begin(), found.end());
    });
  }
  return answer_of(options, rows);
}

}  // namespace

Bench io_bench() {
  return {
      "io", "batches read from a file, each way that data.io knows",
      "Times one pass over a file of tokens that nothing has cached. Every rank gets its batches each way that data.io knows, "
      "beside the same bytes read in order. On 1, 2, 4, ... ranks up to --ranks; under mpiexec on those it started, and by "
      "MPI-IO too.",
      "examples:\n  lockstep bench io --folder /scratch --bytes 4GiB\n  mpiexec -n 4 lockstep bench io --io mpi", run_io};
}

}  // namespace lockstep::app
