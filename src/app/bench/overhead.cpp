// `lockstep bench overhead`: what a line of metrics and a trace cost a training step.

#include "app/bench/bench.h"
#include "lab/step/bench_overhead.h"

namespace lockstep::app {
namespace {

std::optional<Answer> run_overhead(BenchLine& line) {
  std::int64_t ranks = 1;
  lab::OverheadOptions options;
  line.ask_shape();
  line.option("--ranks", ranks, "N", "ranks that share the samples and the cores");
  line.ask_threads();
  line.ask_rounds(options.rounds, "of a step of each kind, behind 2 to warm up");
  line.ask_folder();
  if (!line.read()) return {};
  options.folder = line.folder();
  const lab::StepShape& shape = line.shape();
  RankOptions on = line.rank_options();
  on.ranks = ranks;
  return line.on_ranks(on, [&](Session& session) {
    lab::OverheadOptions own = options;
    own.observed_ops = [&](ops::OpObserver& observer) { return session.make_ops(&observer); };
    return answer_of(lab::bench_overhead(shape, own, session.runtime(), session.ops(), session.world()));
  });
}

}  // namespace

Bench overhead_bench() {
  return {"overhead", "what a line of metrics and a trace cost a step",
          "Times training steps alone, with a line of metrics each (train.log_interval=1), and with metrics and a trace "
          "(log.trace), in turns. It says how much longer the latter take than the former of the same round. The shape lies in "
          "memory twice.",
          "example:\n  lockstep bench overhead --shape char-12x64 --rounds 200", run_overhead};
}

}  // namespace lockstep::app
