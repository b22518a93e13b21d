// `lockstep bench mamf`: the highest rate that products reach here.

#include "lab/mamf.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/bench/bench.h"
#include "base/number_text.h"
#include "train/stop_signal.h"

namespace lockstep::app {
namespace {

/// "A:B:C" or "A".
std::vector<std::int64_t> sizes_from(std::string_view option, const std::string& text, BenchLine& line) {
  constexpr std::int64_t most_size = 1 << 20;
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    numbers.push_back(number_from<std::int64_t>(std::string_view(text).substr(at, end - at)).value_or(0));
    at = end + 1;
  }
  if (numbers.size() == 1) numbers = {numbers[0], numbers[0], 1};
  const bool whole = std::ranges::all_of(numbers, [](std::int64_t number) { return number >= 1 && number <= most_size; });
  const bool holds = numbers.size() == 3 && whole && numbers[0] <= numbers[1];
  line.demand(holds, fmt::format("{} {}: must be a size from 1 to {}, or from:to:step of such", option, text, most_size),
              fmt::format("{} 512:2048:512", option));
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = holds ? numbers[0] : 1; holds && size <= numbers[1]; size += numbers[2]) sizes.push_back(size);
  return sizes;
}

std::optional<Answer> run_mamf(BenchLine& line) {
  constexpr std::size_t most_shapes = 100'000;
  std::string m = "512:2048:512", n = m, k = m;
  lab::MamfOptions finding;
  line.option("--m", m, "A:B:C", "from A to B in steps of C, or one size");
  line.option("--n", n, "A:B:C", "likewise");
  line.option("--k", k, "A:B:C", "likewise");
  line.count("--trials", finding.trials, "N", "timed calls of a shape, at most");
  line.count("--warmups", finding.warmups, "N", "calls before them, at most", 0);
  line.ask_seconds(finding.seconds, "for all shapes together; each is timed 3 times");
  line.ask_dtype("of products");
  line.ask_threads();
  line.ask_isa();
  if (!line.read()) return {};
  finding.m = sizes_from("--m", m, line);
  finding.n = sizes_from("--n", n, line);
  finding.k = sizes_from("--k", k, line);
  finding.type = line.dtype();
  const std::size_t shapes = finding.m.size() * finding.n.size() * finding.k.size();
  line.demand(shapes <= most_shapes, fmt::format("--m, --n, --k: {} shapes are more than {}", shapes, most_shapes),
              "larger steps");
  ProgressBar bar = line.bar(static_cast<double>(shapes));
  return line.on_ranks([&](Session& session) {
    const train::StopSignal signal;
    double done = 0;
    finding.isa = session.isa();
    finding.stopped = [&] { return signal.received().has_value(); };
    finding.progress = [&](const lab::MamfRow& row) {
      bar.update(++done, fmt::format("{}x{}x{}: {:.4f} TFLOPS", row.m, row.n, row.k, 1e-12 * row.median()));
    };
    return answer_of(lab::find_mamf(session.runtime(), finding));
  });
}

}  // namespace

Bench mamf_bench() {
  return {"mamf", "the highest rate of matrix products over many shapes",
          "Finds the maximum achievable matmul FLOPS: mean, median and best of every shape m x n x k, as ml-engineering's finder "
          "does. Each call is timed alone, with the caches flushed. Ctrl-C prints what there is so far.",
          "example:\n  lockstep bench mamf --m 256:1024:256 --n 1024 --k 1024", run_mamf};
}

}  // namespace lockstep::app
