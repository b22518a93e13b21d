// `lockstep bench ladder`: what each optimisation is worth.

#include "lab/ladder/ladder.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "app/build_info.h"
#include "app/command_line.h"
#include "app/commands.h"
#include "app/session.h"
#include "base/error.h"
#include "base/terminal.h"
#include "comm/mpi/mpi_job.h"
#include "device/topology.h"
#include "lab/ladder/product_share.h"
#include "lab/step/bench_step.h"

namespace lockstep::app {
namespace {

struct Options {
  std::string shape = "char-12x64", rungs = "0-11", isa = "auto";
  std::int64_t rounds = 3;
  double seconds = 2;
  bool each = false, json = false;
};

bool parse(const Arguments& arguments, Options& options) {
  CommandLine line("bench ladder",
                   "Climbs from a training step of plain kernels to the usual one: tokens/s and memory before and after every "
                   "optimisation, each a setting of its own, on ranks of one core.");
  line.option("--shape", options.shape, "SHAPE", "as of bench step");
  line.option("--rungs", options.rungs, "LIST", "which rungs are climbed, such as 0-3,7; rung 0 is always measured");
  line.flag("--each", options.each, "every rung alone beside rung 0, in place of one after the other");
  line.option("--rounds", options.rounds, "N", "rounds, each of which measures every rung once");
  line.option("--seconds", options.seconds, "S", "begin no further step of a measurement after so long (but at least 3)");
  line.option("--isa", options.isa, "SET", "auto, avx2, avx512, avx512_bf16");
  line.flag("--json", options.json, "one line of JSON");
  line.note("example:\n  lockstep bench ladder --shape tiny --rungs 0-3 --rounds 5");
  return line.parse(arguments);
}

RankOptions ranks_of(const Options& options, const lab::LadderPlace& place) {
  return {.ranks = place.ranks, .threads = 1, .isa = ops::isa_from_name(options.isa), .plain = place.plain};
}

lab::StepBenchOptions step_of(const Options& options, const lab::LadderPlace& place) {
  lab::Layout layout = lab::data_parallel(place.ranks);
  layout.plan.attention = place.attention;
  return {.weights = {.type = place.type}, .layout = layout, .seconds = options.seconds, .version = kVersion};
}

lab::LadderSample measure(const Options& options, const lab::LadderPlace& place) {
  lab::LadderSample sample;
  run_on_ranks(ranks_of(options, place), [&](Session& session) {
    const lab::StepReport report =
        lab::bench_step(place.shape, step_of(options, place), session.runtime(), session.ops(), session.world());
    if (session.lead()) sample = {report.tokens_per_second(), report.memory_bytes};
  });
  return sample;
}

double foot_share(const Options& options, const lab::LadderPlace& foot) {
  double share = 0;
  run_on_ranks(ranks_of(options, foot),
               [&](Session& session) { share = lab::product_share(foot.shape, session.runtime(), session.isa(), foot.plain); });
  return share;
}

}  // namespace

int bench_ladder(const Arguments& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  const lab::StepShape& shape = lab::step_shape(options.shape);
  std::vector<Problem> problems;
  const std::vector<lab::Rung> rungs = lab::rungs_from(options.rungs, problems);
  if (options.rounds < 1) problems.push_back({fmt::format("--rounds {}: must be at least 1", options.rounds), "--rounds 3"});
  if (!(options.seconds > 0)) problems.push_back({fmt::format("--seconds {}: must be above 0", options.seconds), "--seconds 2"});
  if (comm::find_mpi_job())
    problems.push_back({"bench ladder starts its own ranks, one of them at first", "start it without mpiexec or srun"});
  if (!problems.empty()) throw UserError(std::move(problems));
  const lab::LadderOptions climbing{.rungs = rungs,
                                    .cores = static_cast<int>(neighbouring_cores().size()),
                                    .rounds = static_cast<int>(options.rounds),
                                    .each = options.each};
  ProgressBar bar(stderr, "bench ladder", static_cast<double>(options.rounds) * static_cast<double>(rungs.size()));
  double done = 0;
  lab::LadderReport report = lab::climb_ladder(shape, climbing, [&](const lab::LadderPlace& place) {
    const lab::LadderSample sample = measure(options, place);
    bar.update(++done, "");
    return sample;
  });
  report.foot_share = foot_share(options, lab::foot_of(shape));
  bar.finish();
  fmt::print("{}{}", options.json ? lab::to_json(report).dump() : lab::to_text(report), options.json ? "\n" : "");
  return 0;
}

}  // namespace lockstep::app
