// `lockstep bench step`: how fast whole training steps are, and where their time goes.

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "app/cli/build_info.h"
#include "app/gpu/device_option.h"
#include "app/start/layout_option.h"
#include "lab/step/bench_step.h"

namespace lockstep::app {
namespace {

struct StepAsked {
  LayoutOption layout;
  lab::StepBenchOptions bench{.version = kVersion};
  bool details = false, no_floor = false;
};

bool read_step(BenchLine& line, StepAsked& asked) {
  line.ask_shape();
  line.ask_device();
  line.ask_dtype("of weights and activations; bf16 has fp32 master weights");
  asked.layout.declare(line,
                       "how ranks share the training, in the words of lockstep verify --help: dp=2,tp=2,zero=1; without the "
                       "floor where these are several",
                       "the samples and the cores");
  line.ask_threads();
  line.ask_isa();
  line.count("--steps", asked.bench.steps, "N", "timed steps, behind 2 to warm up (at least 3 are timed)");
  line.ask_seconds(asked.bench.seconds, "begin no further step after so long");
  line.flag("--no-floor", asked.no_floor,
            "leave out the floor, which takes 5 to 20 s to measure; a GPU has none: no other library is timed there");
  line.flag("--details", asked.details, "every kind of kernel and every product, with its rate");
  if (!line.read()) return false;
  asked.bench.weights = {.type = line.dtype()};
  asked.layout.read(line.problems());
  asked.bench.layout = asked.layout.layout;
  return true;
}

std::optional<Answer> run_step(BenchLine& line) {
  StepAsked asked;
  if (!read_step(line, asked)) return {};
  line.check();
  const lab::StepShape& shape = line.shape();
  RankOptions on = line.rank_options();
  on.ranks = asked.layout.ranks_to_start();
  return line.on_ranks(on, [&](Session& session) {
    lab::StepBenchOptions options = asked.bench;
    options.observed_ops = [&](ops::OpObserver& observer) { return session.make_ops(&observer); };
    lab::StepReport report = lab::bench_step(shape, options, session.runtime(), session.ops(), session.world());
    const bool comparable = !line.on_gpu() || options.weights.type == DType::bf16;
    report.peak_flops = comparable ? peak_flops(session.runtime()) * session.world().size() : 0;
    if (!session.lead()) return Answer();
    if (!asked.no_floor && !line.on_gpu() && session.world().size() == 1)
      report.floor = lab::measure_floor(shape, options.weights, session.runtime(), session.isa());
    return answer_of(report, asked.details);
  });
}

}  // namespace

Bench step_bench() {
  return {"step", "whole optimizer steps: tokens/s, memory, where the time goes",
          "Times whole optimizer steps (forward, backward, clipping, AdamW; one fixed batch) and shows where the time goes. The "
          "model is a GPT-2 with biases and tanh GELU, or a Llama, with a tied head and no dropout. The floor is the time of the "
          "step's products and of the optimizer's bytes. Products count at the best rate that any library reaches for their "
          "shapes here.",
          "example:\n  lockstep bench step --shape char --seconds 20 --details", run_step};
}

}  // namespace lockstep::app
