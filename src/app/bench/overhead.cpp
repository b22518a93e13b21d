// `lockstep bench overhead`: what a line of metrics and a trace cost a training step.

#include <fmt/format.h>

#include "app/command_line.h"
#include "app/commands.h"
#include "app/session.h"
#include "lab/step/bench_overhead.h"

namespace lockstep::app {

int bench_overhead(const Arguments& arguments) {
  std::string shape_name = "tiny", folder = ".";
  std::int64_t ranks = 1, threads = 0, rounds = 100;
  bool json = false;
  CommandLine line("bench overhead",
                   "Times training steps alone, with a line of metrics each (train.log_interval=1), and with metrics and a trace "
                   "(log.trace), in turns, and says how much longer the latter take than the former of the same round.");
  line.option("--shape", shape_name, "SHAPE", "as of bench step; the ranks share its samples, and it lies in memory twice");
  line.option("--ranks", ranks, "N", "ranks that share the samples and the cores");
  line.option("--threads", threads, "N", "of each rank; 0: its share of the cores");
  line.option("--rounds", rounds, "N", "of a step of each kind, behind 2 to warm up");
  line.option("--folder", folder, "DIR", "where the metrics are written; what is written there is deleted again");
  line.flag("--json", json, "one line of JSON");
  line.note("example:\n  lockstep bench overhead --shape char-12x64 --rounds 200");
  if (!line.parse(arguments)) return 0;
  const lab::StepShape& shape = lab::step_shape(shape_name);
  run_on_ranks({.ranks = ranks, .threads = threads}, [&](Session& session) {
    const lab::OverheadReport report =
        lab::bench_overhead(shape,
                            {.rounds = static_cast<int>(rounds),
                             .folder = folder,
                             .observed_ops = [&](ops::OpObserver& observer) { return session.make_ops(&observer); }},
                            session.runtime(), session.ops(), session.world());
    if (session.lead()) fmt::print("{}", json ? lab::to_json(report).dump() + "\n" : lab::to_text(report));
  });
  return 0;
}

}  // namespace lockstep::app
