// `lockstep bench scaling`: training steps on one rank, two, four, ...

#include "lab/scaling.h"

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "app/cli/build_info.h"
#include "device/topology.h"
#include "lab/step/bench_step.h"
#include "ops/cpu/options.h"

namespace lockstep::app {
namespace {

lab::ScalingRow measure_scaling(RankOptions on, const lab::StepBenchOptions& options, const lab::StepShape& shape, int ranks) {
  lab::ScalingRow row;
  row.ranks = ranks;
  on.ranks = ranks;
  on.threads = 1;
  run_on_ranks(on, [&](Session& session) {
    const lab::StepReport report = lab::bench_step(shape, options, session.runtime(), session.ops(), session.world());
    if (!session.lead()) return;
    row.tokens_per_second = report.tokens_per_second();
    row.step_seconds = report.median_seconds();
    row.exposed_seconds = report.exposed_seconds;
  });
  return row;
}

/// 1, 2, 4, ... and the most.
std::vector<int> scaling_ranks(int most) {
  std::vector<int> counts;
  for (int n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

std::optional<Answer> run_scaling(BenchLine& line) {
  std::string kinds = "both";
  int most = 0;
  lab::StepBenchOptions options{.steps = 20, .seconds = 10, .version = kVersion};
  line.ask_shape();
  line.choice("--kind", kinds, {"both", "strong", "weak"}, "which scaling");
  line.count("--ranks", most, "N", "the most ranks; 0: the cores", 0, most_ranks());
  line.ask_isa();
  line.count("--steps", options.steps, "N", "timed steps of a measurement, behind 2 to warm up");
  line.ask_seconds(options.seconds, "of a measurement, at most (but at least 3 steps)");
  if (!line.read()) return {};
  line.check();
  const lab::StepShape& shape = line.shape();
  std::vector<lab::ScalingCurve> curves;
  for (const std::string kind : {"strong", "weak"}) {
    if (kinds != "both" && kinds != kind) continue;
    lab::ScalingCurve curve{kind, {}};
    for (const int ranks : scaling_ranks(most > 0 ? most : static_cast<int>(neighbouring_cores().size()))) {
      lab::StepShape sized = shape;
      if (kind == "weak") sized.samples *= ranks;
      if (sized.samples % ranks != 0) {
        fmt::print(stderr, "{} ranks are left out: the {} samples of {} do not divide by them\n", ranks, sized.samples,
                   shape.name);
        continue;
      }
      curve.rows.push_back(measure_scaling(line.rank_options(), options, sized, ranks));
    }
    curves.push_back(std::move(curve));
  }
  return answer_of(std::string(shape.name), curves);
}

}  // namespace

Bench scaling_bench() {
  return {"scaling", "training steps on 1, 2, 4, ... ranks: speed-up and efficiency",
          "Times training steps on 1, 2, 4, ... ranks of one thread each. Strong: the shape's samples are shared; weak: every "
          "rank has the shape's samples. Efficiency is the speed-up over the growth in ranks.",
          "example:\n  lockstep bench scaling --shape tiny --kind weak", run_scaling};
}

}  // namespace lockstep::app
