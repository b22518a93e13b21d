#include "lab/step/floor.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "arch/parameters.h"
#include "device/team.h"
#include "lab/bench_gemm.h"
#include "lab/machine.h"
#include "ops/cpu/options.h"

namespace lockstep::lab {
namespace {

// Bytes for each parameter. AdamW reads weight, gradient and two moments, and writes all but the gradient. The model reads the
// weight itself or a half of it.
double optimizer_bytes(const parallel::WeightStorage& weights) {
  constexpr double gradient = 4;
  return 6 * static_cast<double>(size_of(weights.owned())) + gradient;
}

// Heads that are measured at once, a worker: a step's own number would only cost memory.
constexpr std::int64_t heads_per_worker = 8;

// Seconds for one head, when the whole team works on many.
double head_seconds(GemmBench& bench, const StepProduct& product, int workers) {
  const std::int64_t heads = heads_per_worker * workers;
  return bench.measure_heads(heads, product.m, product.n, product.k, product.role == ProductRole::scores).best /
         static_cast<double>(heads);
}

using Benches = std::vector<std::unique_ptr<GemmBench>>;

// A bf16 product is that of its widened operands: what fp32 reaches for a shape, bf16 might too.
double layer_seconds(const Benches& benches, const StepProduct& product) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& bench : benches) least = std::min(least, measure_layer(*bench, product).fastest().median);
  return least;
}

}  // namespace

GemmRow measure_layer(GemmBench& bench, const StepProduct& product) {
  const ProductKind kind = product.role == ProductRole::forward          ? ProductKind::forward
                           : product.role == ProductRole::input_gradient ? ProductKind::backward_input
                                                                         : ProductKind::backward_weight;
  return bench.measure("", {.name = "", .tokens = product.m, .out = product.n, .in = product.k, .calls = 1}, kind);
}

double Floor::seconds() const {
  double sum = optimizer_seconds;
  for (const FloorProduct& product : products) sum += product.step_seconds();
  return sum;
}

Floor measure_floor(const StepShape& shape, const parallel::WeightStorage& weights, Runtime& runtime, ops::Isa isa, int rounds) {
  Floor floor;
  const arch::ModelConfig config = model_of(shape);
  Team& team = runtime.team();
  GemmBenchOptions options{.rounds = rounds, .sample_seconds = 0.01, .isa = isa};
  Benches benches;
  benches.push_back(std::make_unique<GemmBench>(runtime, options));
  options.type = weights.type;
  if (weights.type != DType::f32) benches.push_back(std::make_unique<GemmBench>(runtime, options));
  for (const StepProduct& product : step_products(config, shape.samples, shape.positions)) {
    const bool attention = product.role == ProductRole::scores || product.role == ProductRole::values;
    floor.products.push_back(
        {product, attention ? head_seconds(*benches.front(), product, team.size()) : layer_seconds(benches, product)});
  }
  floor.bandwidth = update_bandwidth(team, runtime.memory());
  floor.optimizer_seconds =
      optimizer_bytes(weights) * static_cast<double>(arch::count_parameters(config).total) / floor.bandwidth;
  return floor;
}

}  // namespace lockstep::lab
