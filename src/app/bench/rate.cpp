// `lockstep bench rate`: multiply-adds a second, now.

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "lab/machine.h"

namespace lockstep::app {
namespace {

std::optional<Answer> run_rate(BenchLine& line) {
  double seconds = 0.2;
  line.ask_seconds(seconds, "to count for, up to 60");
  if (!line.read()) return {};
  line.demand(seconds <= 60, fmt::format("--seconds {}: must be above 0, up to 60", seconds), "--seconds 0.2");
  return line.on_ranks([&](Session& session) {
    const double gflops = 1e-9 * lab::fma_rate(session.team(), seconds);
    Answer answer;
    answer.say(fmt::format("{:.1f} GF/s\n", gflops));
    answer.fact("gflops", gflops);
    return answer;
  });
}

}  // namespace

Bench rate_bench() {
  return {"rate", "multiply-adds a second, now",
          "The rate of multiply-adds in registers on all cores, now. Other figures of the same moments are parts of it, on a "
          "machine whose speed changes.",
          "example:\n  lockstep bench rate", run_rate};
}

}  // namespace lockstep::app
