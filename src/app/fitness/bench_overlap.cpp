// `lockstep bench overlap`: how much of the exchange of gradients hides behind the backward pass.

#include <fmt/format.h>

#include <optional>
#include <string>

#include "app/command_line.h"
#include "app/fitness/fitness.h"
#include "app/session.h"
#include "lab/overlap/overlap.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string shape = "tiny";
  std::optional<std::int64_t> ranks;
  std::int64_t threads = 0, rounds = 7, bucket_bytes = 25 << 20;
  bool json = false;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line("bench overlap",
                   "Times training steps that wait for every bucket of gradients at once (parallel.overlap=false) and steps "
                   "whose backward pass goes on meanwhile, in turns, and says how much of the exchange the latter hide.");
  line.option("--shape", options.shape, "SHAPE", "as of bench step; the ranks share its samples");
  line.option("--ranks", options.ranks, "N", "ranks (default: one a core; under mpiexec those it started)");
  line.option("--threads", options.threads, "N", "of each rank; 0: its share of the cores");
  line.option("--bucket-bytes", options.bucket_bytes, "BYTES", "parallel.bucket_bytes", std::int64_t{1} << 50);
  line.option("--rounds", options.rounds, "N", "timed steps of either kind, behind 2 to warm up");
  line.flag("--json", options.json, "one line of JSON");
  line.note("example:\n  mpirun -n 2 --host a,b lockstep bench overlap --shape char-12x64 --bucket-bytes 1048576");
  return line.parse(arguments);
}

}  // namespace

int bench_overlap(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  const lab::StepShape& shape = lab::step_shape(options.shape);
  run_on_ranks({.ranks = rank_count(options.ranks).to_start, .threads = options.threads}, [&](Session& session) {
    const lab::OverlapReport report =
        lab::bench_overlap(shape, {.rounds = static_cast<int>(options.rounds), .bucket_bytes = options.bucket_bytes},
                           session.runtime(), session.ops(), session.world());
    if (!session.lead()) return;
    fmt::print("{}", options.json ? lab::to_json(report).dump() + "\n" : lab::to_text(report));
  });
  return 0;
}

}  // namespace lockstep::app
