// `lockstep bench step`: how fast whole training steps are, and where their time goes.

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "app/cli/build_info.h"
#include "comm/mpi/mpi_job.h"
#include "lab/machine.h"
#include "lab/step/bench_step.h"

namespace lockstep::app {
namespace {

struct StepAsked {
  std::string layout;
  std::int64_t ranks = 1;
  lab::StepBenchOptions bench{.version = kVersion};
  bool details = false, no_floor = false;
};

bool read_step(BenchLine& line, StepAsked& asked) {
  line.ask_shape();
  line.ask_dtype("of weights and activations; bf16 has fp32 master weights");
  line.option("--layout", asked.layout, "WORDS",
              "how ranks share the training, in the words of lockstep verify --help: dp=2,tp=2,zero=1; without the floor where "
              "these are several");
  line.option("--ranks", asked.ranks, "N", "short for --layout dp=N: ranks that share the samples and the cores");
  line.ask_threads();
  line.ask_isa();
  line.count("--steps", asked.bench.steps, "N", "timed steps, behind 2 to warm up (at least 3 are timed)");
  line.ask_seconds(asked.bench.seconds, "begin no further step after so long");
  line.flag("--no-floor", asked.no_floor, "leave out the floor, which takes 5 to 20 s to measure");
  line.flag("--details", asked.details, "every kind of kernel and every product, with its rate");
  if (!line.read()) return false;
  asked.bench.weights = {.type = line.dtype()};
  line.demand(asked.layout.empty() || asked.ranks == 1,
              fmt::format("--ranks {} and --layout {}: a layout says how many ranks there are", asked.ranks, asked.layout),
              fmt::format("--layout dp={},...", asked.ranks));
  if (!asked.layout.empty()) asked.bench.layout = lab::layout_from(asked.layout, line.problems(), lab::bench_defaults);
  return true;
}

std::optional<Answer> run_step(BenchLine& line) {
  StepAsked asked;
  if (!read_step(line, asked)) return {};
  line.check();
  const lab::StepShape& shape = line.shape();
  RankOptions on = line.rank_options();
  const bool processes = comm::find_mpi_job().has_value();  // which are the ranks
  on.ranks = asked.bench.layout && !processes ? asked.bench.layout->plan.ranks() : asked.ranks;
  return line.on_ranks(on, [&](Session& session) {
    lab::StepBenchOptions options = asked.bench;
    options.observed_ops = [&](ops::OpObserver& observer) { return session.make_ops(&observer); };
    lab::StepReport report = lab::bench_step(shape, options, session.runtime(), session.ops(), session.world());
    report.peak_flops = lab::fma_peak(session.team()) * session.world().size();
    if (!session.lead()) return Answer();
    if (!asked.no_floor && session.world().size() == 1)
      report.floor = lab::measure_floor(shape, options.weights, session.runtime(), session.isa());
    return answer_of(report, asked.details);
  });
}

}  // namespace

Bench step_bench() {
  return {
      "step", "whole optimizer steps: tokens/s, memory, where the time goes",
      "Times whole optimizer steps (forward, backward, clipping, AdamW; one fixed batch) of a GPT-2 model with biases and tanh "
      "GELU, or of a Llama, with a tied head and no dropout, and shows where the time goes. The floor is the time of the "
      "step's products at the best rate that any library reaches here for their shapes, and of the optimizer's bytes.",
      "example:\n  lockstep bench step --shape char --seconds 20 --details", run_step};
}

}  // namespace lockstep::app
