// `lockstep bench swiglu`: which width of a SwiGLU is the fastest here.

#include <fmt/format.h>

#include "app/bench/bench.h"
#include "lab/swiglu_widths.h"

namespace lockstep::app {
namespace {

std::optional<Answer> run_swiglu(BenchLine& line) {
  constexpr std::int64_t most_size = 1 << 20;
  lab::SwigluOptions search{.hidden = 768};
  line.count("--hidden", search.hidden, "H", "width of the model", 1, most_size);
  line.count("--tokens", search.tokens, "N", "rows of every product", 1, most_size);
  line.ask_rounds(search.rounds, "each of which times every width once");
  line.ask_dtype("of products");
  line.ask_threads();
  line.ask_isa();
  if (!line.read()) return {};
  line.check();
  search.type = line.dtype();
  ProgressBar bar = line.bar(static_cast<double>(lab::swiglu_widths(search.hidden).size()) * search.rounds);
  return line.on_ranks([&](Session& session) {
    double done = 0;
    search.isa = session.isa();
    search.progress = [&](std::int64_t width) { bar.update(++done, fmt::format("{}", width)); };
    return answer_of(lab::search_swiglu(session.runtime(), search));
  });
}

}  // namespace

Bench swiglu_bench() {
  return {"swiglu", "which width of a SwiGLU near 8/3 of the model's is the fastest",
          "Times the products of a SwiGLU, forward and backward, for the hidden widths near 8/3 H that keep its parameters. "
          "Ranks them by their share of the rate of multiply-adds.",
          "example:\n  lockstep bench swiglu --hidden 768", run_swiglu};
}

}  // namespace lockstep::app
