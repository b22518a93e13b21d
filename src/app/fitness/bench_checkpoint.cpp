// `lockstep bench checkpoint`: how fast checkpoints are written and read, and how long training waits for them.

#include "lab/saving/bench_checkpoint.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "app/command_line.h"
#include "app/fitness/fitness.h"
#include "app/session.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string shape = "tiny", folder = ".";
  std::optional<std::int64_t> ranks;
  std::int64_t threads = 0, rounds = 5, zero = 0;
  bool json = false;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line(
      "bench checkpoint",
      "Times, in turns, checkpoints that training waits for, loading them again from the device, the same bytes written by the "
      "ranks with fdatasync and read again, and checkpoints that training goes on beside (checkpoint.async), and says how long "
      "training waits for these and how much longer its steps take meanwhile.");
  line.option("--shape", options.shape, "SHAPE", "as of bench step; the ranks share its samples");
  line.option("--folder", options.folder, "DIR", "on the disk that is measured; what is written there is deleted again");
  line.option("--ranks", options.ranks, "N", "ranks (default: one a core; under mpiexec those it started)");
  line.option("--threads", options.threads, "N", "of each rank; 0: its share of the cores");
  line.option("--zero", options.zero, "N", "as memory.zero: 0, 1, 2 or 3");
  line.option("--rounds", options.rounds, "N", "checkpoints of either kind");
  line.flag("--json", options.json, "one line of JSON");
  line.note("example:\n  lockstep bench checkpoint --shape gpt2:4x64 --ranks 4 --folder runs");
  return line.parse(arguments);
}

}  // namespace

int bench_checkpoint(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  const lab::StepShape& shape = lab::step_shape(options.shape);
  run_on_ranks({.ranks = rank_count(options.ranks).to_start, .threads = options.threads}, [&](Session& session) {
    const lab::CheckpointReport report = lab::bench_checkpoint(
        shape, {.folder = options.folder, .rounds = static_cast<int>(options.rounds), .zero = static_cast<int>(options.zero)},
        session.runtime(), session.ops(), session.world());
    if (!session.lead()) return;
    fmt::print("{}", options.json ? lab::to_json(report).dump() + "\n" : lab::to_text(report));
  });
  return 0;
}

}  // namespace lockstep::app
