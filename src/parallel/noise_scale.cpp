#include "parallel/noise_scale.h"

#include <algorithm>
#include <array>

namespace lockstep::parallel {

GradientNoise& GradientNoise::operator+=(const GradientNoise& other) {
  steps += other.steps;
  square += other.square;
  variance += other.variance;
  return *this;
}

void NoiseMemory::declare(Arena& workspace, const std::vector<layout::Unit>& units) {
  std::size_t most = 1;
  for (const layout::Unit& unit : units) most = std::max(most, layout::owned_runs(unit, {0, unit.elements}).size());
  workspace.declare(squares, "squares for the noise scale", Shape{static_cast<std::int64_t>(most)}, DType::f64);
}

void NoiseMeter::add(ops::Ops& ops, const std::vector<layout::Range>& runs, const Tensor& gradient, std::int64_t first,
                     double& sum) {
  if (runs.empty()) return;
  const auto count = std::ssize(runs);
  for (std::int64_t i = 0; i < count; ++i) {
    const layout::Range& run = runs[static_cast<std::size_t>(i)];
    ops.reduce().sum_of_squares(memory_.squares.device.flat(i, 1), gradient.flat(run.first - first, run.count));
  }
  const Mirror squares = memory_.squares.flat(0, count);
  download(ops.stream(), squares);
  for (const double square : elements<const double>(squares.host)) sum += square;
}

void NoiseMeter::add_first(ops::Ops& ops, UnitIndex unit, const layout::Unit& of, const Tensor& gradient) {
  if (unit != sizes_.tied) add(ops, layout::owned_runs(of, {0, of.elements}), gradient, 0, small_);
}

// Gradients are those of the mean over the step: a micro-batch's own mean is as many times larger as there are micro-batches.
GradientNoise NoiseMeter::measure(ops::Ops& ops, TrainingState& state, std::int64_t targets) {
  std::array<double, 2> sums{small_, 0};
  state.for_each({.weights = false, .gradients = true}, [&](const StateRange& range) {
    const layout::Unit& unit = state.units()[static_cast<std::size_t>(range.unit.value)];
    if (range.unit != sizes_.tied) add(ops, layout::owned_runs(unit, range.own), range.gradient, range.range.first, sums[1]);
  });
  group_.host().all_reduce(view(std::span<double>(sums), Shape{2}), comm::Reduction::sum).wait();
  const auto m = static_cast<double>(sizes_.microbatches);
  const double small = sums[0] * m * m / sizes_.first, large = sums[1];
  return {
      .steps = 1, .square = (m * large - small) / (m - 1), .variance = (small - large) * static_cast<double>(targets) / (m - 1)};
}

}  // namespace lockstep::parallel
