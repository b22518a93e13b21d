// `lockstep bench overlap`: how much of the exchange of gradients hides behind the backward pass.

#include "lab/overlap/overlap.h"

#include "app/bench/bench.h"

namespace lockstep::app {
namespace {

std::optional<Answer> run_overlap(BenchLine& line) {
  lab::OverlapOptions options;
  line.ask_shape();
  line.ask_ranks();
  line.ask_threads();
  line.count("--bucket-bytes", options.bucket_bytes, "BYTES", "parallel.bucket_bytes", 1, std::int64_t{1} << 50);
  line.ask_rounds(options.rounds, "timed steps of either kind, behind 2 to warm up");
  if (!line.read()) return {};
  const lab::StepShape& shape = line.shape();
  return line.on_ranks([&](Session& session) {
    return answer_of(lab::bench_overlap(shape, options, session.runtime(), session.ops(), session.world()));
  });
}

}  // namespace

Bench overlap_bench() {
  return {"overlap", "how much of the gradients' exchange the backward pass hides",
          "Times training steps that wait for every bucket of gradients at once (parallel.overlap=false) and, in turns, steps "
          "whose backward pass goes on meanwhile. Says how much of the exchange the latter hide.",
          "example:\n  mpirun -n 2 --host a,b lockstep bench overlap --shape char-12x64 --bucket-bytes 1048576", run_overlap};
}

}  // namespace lockstep::app
