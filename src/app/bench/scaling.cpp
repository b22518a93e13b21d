// `lockstep bench scaling`: training steps on one rank, two, four, ...

#include "lab/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/build_info.h"
#include "app/command_line.h"
#include "app/commands.h"
#include "app/session.h"
#include "base/error.h"
#include "base/terminal.h"
#include "device/topology.h"
#include "lab/step/bench_step.h"

namespace lockstep::app {
namespace {

struct ScalingOptions {
  std::string shape = "tiny", kind = "both", isa = "auto";
  std::int64_t ranks = 0, steps = 20;
  double seconds = 10;
  bool json = false;
};

bool parse(const Arguments& arguments, ScalingOptions& options) {
  CommandLine line("bench scaling",
                   "Times training steps on 1, 2, 4, ... ranks of one thread each. Strong: the shape's samples are shared; weak: "
                   "every rank has the shape's samples. Efficiency is the speed-up over the growth in ranks.");
  line.option("--shape", options.shape, "SHAPE", "as of bench step");
  line.choice("--kind", options.kind, {"both", "strong", "weak"}, "which scaling");
  line.option("--ranks", options.ranks, "N", "the most ranks; 0: the cores");
  line.option("--isa", options.isa, "SET", "auto, avx2, avx512, avx512_bf16");
  line.option("--steps", options.steps, "N", "timed steps of a measurement, behind 2 to warm up");
  line.option("--seconds", options.seconds, "S", "of a measurement, at most (but at least 3 steps)");
  line.flag("--json", options.json, "one line of JSON");
  line.note("example:\n  lockstep bench scaling --shape tiny --kind weak");
  if (!line.parse(arguments)) return false;
  constexpr std::int64_t most_ranks = 1024;
  if (options.ranks < 0 || options.ranks > most_ranks) {
    throw UserError(fmt::format("--ranks {}: must be from 0 to {}", options.ranks, most_ranks), "--ranks 0 goes up to the cores");
  }
  return true;
}

lab::ScalingRow measure(const ScalingOptions& options, const lab::StepShape& shape, int ranks) {
  lab::ScalingRow row;
  row.ranks = ranks;
  run_on_ranks({.ranks = ranks, .threads = 1, .isa = ops::isa_from_name(options.isa)}, [&](Session& session) {
    const lab::StepReport report =
        lab::bench_step(shape, {.steps = static_cast<int>(options.steps), .seconds = options.seconds, .version = kVersion},
                        session.runtime(), session.ops(), session.world());
    if (!session.lead()) return;
    row.tokens_per_second = report.tokens_per_second();
    row.step_seconds = report.median_seconds();
    row.exposed_seconds = report.exposed_seconds;
  });
  return row;
}

// 1, 2, 4, ... and the most.
std::vector<int> rank_counts(int most) {
  std::vector<int> counts;
  for (int n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

}  // namespace

int bench_scaling(const Arguments& arguments) {
  ScalingOptions options;
  if (!parse(arguments, options)) return 0;
  const lab::StepShape& shape = lab::step_shape(options.shape);
  const auto cores = static_cast<std::int64_t>(neighbouring_cores().size());
  const std::vector<int> counts = rank_counts(static_cast<int>(options.ranks > 0 ? options.ranks : cores));
  std::vector<lab::ScalingCurve> curves;
  for (const std::string kind : {"strong", "weak"}) {
    if (options.kind != "both" && options.kind != kind) continue;
    lab::ScalingCurve curve{kind, {}};
    for (const int ranks : counts) {
      lab::StepShape sized = shape;
      if (kind == "weak") sized.samples *= ranks;
      if (sized.samples % ranks != 0) {
        fmt::print(stderr, "{} ranks are left out: the {} samples of {} do not divide by them\n", ranks, sized.samples,
                   shape.name);
        continue;
      }
      curve.rows.push_back(measure(options, sized, ranks));
    }
    curves.push_back(std::move(curve));
  }
  if (options.json) {
    fmt::print("{}\n", lab::to_json(options.shape, curves).dump());
  } else {
    fmt::print("{}", lab::to_text(options.shape, curves));
  }
  return 0;
}

}  // namespace lockstep::app
