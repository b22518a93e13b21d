// `lockstep bench gemm`: how fast products are beside those of other libraries.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/bench/bench.h"
#include "lab/bench_gemm.h"

namespace lockstep::app {
namespace {

/// Products that are measured.
std::size_t products_of(const std::vector<std::string>& models) {
  std::size_t products = 0;
  for (const std::string& model : models)
    for (const lab::LayerShape& shape : lab::layer_shapes(model))
      products += (shape.forward ? 1U : 0U) + (shape.backward ? 2U : 0U);
  return products;
}

std::optional<Answer> run_gemm(BenchLine& line) {
  lab::GemmBenchOptions options;
  std::vector<std::string> shapes;
  line.option("--shape", shapes, "SHAPE",
              fmt::format("{} (default: {})", fmt::join(lab::step_shape_names(), ", "), fmt::join(options.models, ", ")));
  line.ask_rounds(options.rounds, "interleaved rounds");
  line.ask_dtype("of products; bf16 beside our fp32");
  line.ask_threads();
  line.ask_isa();
  if (!line.read()) return {};
  options.type = line.dtype();
  if (!shapes.empty()) options.models = shapes;
  ProgressBar bar = line.bar(static_cast<double>(products_of(options.models)));
  return line.on_ranks([&](Session& session) {
    options.isa = session.isa();
    double done = 0;
    return answer_of(lab::bench_gemm(session.runtime(), options, [&](const lab::GemmRow& row) {
      bar.update(++done, fmt::format("{} {}", row.model, row.shape.name));
    }));
  });
}

}  // namespace

Bench gemm_bench() {
  return {
      "gemm", "matrix products beside those of oneDNN and OpenBLAS",
      "Times our products beside those of oneDNN and OpenBLAS (where it is installed), in interleaved rounds. They are those of "
      "layers of GPT-2 and Llama models: forward, gradient of the input, accumulating gradient of the weight. Figures are "
      "medians. The rate of multiply-adds is measured beside every sample; shares and ratios count in it.",
      "example:\n  lockstep bench gemm --shape tiny --shape gpt2:4x64\n"
      "bench mamf finds the highest rate, bench swiglu the best width of a SwiGLU, bench products what a model's products fill",
      run_gemm};
}

}  // namespace lockstep::app
