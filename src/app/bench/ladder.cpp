// `lockstep bench ladder`: what each optimisation is worth.

#include "lab/ladder/ladder.h"

#include "app/bench/bench.h"
#include "app/cli/build_info.h"
#include "comm/mpi/mpi_job.h"
#include "device/topology.h"
#include "lab/step/bench_step.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

RankOptions ladder_ranks(RankOptions on, const lab::LadderPlace& place) {
  on.ranks = place.ranks;
  on.threads = 1;
  on.plain = place.plain;
  return on;
}

lab::LadderSample measure_place(const RankOptions& on, double seconds, const lab::LadderPlace& place) {
  lab::Layout layout = lab::data_parallel(place.ranks);
  layout.plan.attention = place.attention;
  const lab::StepBenchOptions step{.weights = {.type = place.type}, .layout = layout, .seconds = seconds, .version = kVersion};
  lab::LadderSample sample;
  run_on_ranks(ladder_ranks(on, place), [&](Session& session) {
    const lab::StepReport report = lab::bench_step(place.shape, step, session.runtime(), session.ops(), session.world());
    if (session.lead()) sample = {report.tokens_per_second(), report.memory_bytes};
  });
  return sample;
}

double foot_share(const RankOptions& on, const lab::LadderPlace& foot) {
  double share = 0;
  run_on_ranks(ladder_ranks(on, foot),
               [&](Session& session) { share = lab::product_share(foot.shape, session.runtime(), session.isa(), foot.plain); });
  return share;
}

std::optional<Answer> run_ladder(BenchLine& line) {
  std::string rungs = "0-11";
  double seconds = 2;
  lab::LadderOptions climbing;
  line.ask_shape("char-12x64");
  line.option("--rungs", rungs, "LIST", "which rungs are climbed, such as 0-3,7; rung 0 is always measured");
  line.flag("--each", climbing.each, "every rung alone beside rung 0, in place of one after the other");
  line.ask_rounds(climbing.rounds, "rounds, each of which measures every rung once");
  line.ask_seconds(seconds, "begin no further step of a measurement after so long (but at least 3)");
  line.ask_isa();
  if (!line.read()) return {};
  const lab::StepShape& shape = line.shape();
  climbing.rungs = lab::rungs_from(rungs, line.problems());
  climbing.cores = static_cast<int>(neighbouring_cores().size());
  line.demand(!comm::find_mpi_job(), "bench ladder starts its own ranks, one of them at first",
              "start it without mpiexec or srun");
  line.check();
  ProgressBar bar = line.bar(static_cast<double>(climbing.rounds) * static_cast<double>(climbing.rungs.size()));
  double done = 0;
  lab::LadderReport report = lab::climb_ladder(shape, climbing, [&](const lab::LadderPlace& place) {
    const lab::LadderSample sample = measure_place(line.rank_options(), seconds, place);
    bar.update(++done, "");
    return sample;
  });
  report.foot_share = foot_share(line.rank_options(), lab::foot_of(shape));
  return answer_of(report);
}

}  // namespace

Bench ladder_bench() {
  return {"ladder", "what each optimisation is worth, one after the other",
          "Climbs from a training step of plain kernels to the usual one, on ranks of one core. Shows tokens/s and memory before "
          "and after every optimisation, each a setting of its own.",
          "example:\n  lockstep bench ladder --shape tiny --rungs 0-3 --rounds 5", run_ladder};
}

}  // namespace lockstep::app
