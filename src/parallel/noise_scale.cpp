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
  std::int64_t runs = 0;
  first.clear();
  for (const layout::Unit& unit : units) {
    first.push_back(runs);
    runs += std::ssize(layout::owned_runs(unit, {0, unit.elements}));
  }
  workspace.declare(squares, "squares for the noise scale", Shape{std::max<std::int64_t>(1, runs)}, DType::f64);
}

layout::Range NoiseMeter::take(ops::Ops& ops, std::int64_t place, const std::vector<layout::Range>& runs, const Tensor& gradient,
                               std::int64_t first) {
  const layout::Range places{place, std::ssize(runs)};
  for (const layout::Range& run : runs)
    ops.reduce().sum_of_squares(memory_.squares.device.flat(place++, 1), gradient.flat(run.first - first, run.count));
  return places;
}

double NoiseMeter::sum_of(std::span<const layout::Range> places) const {
  double sum = 0;
  const std::span<const double> squares = elements<const double>(memory_.squares.host);
  for (const layout::Range& of : places) {
    for (const double square : squares.subspan(static_cast<std::size_t>(of.first), static_cast<std::size_t>(of.count)))
      sum += square;
  }
  return sum;
}

void NoiseMeter::add_first(ops::Ops& ops, UnitIndex unit, const layout::Unit& of, const Tensor& gradient) {
  if (unit == sizes_.tied) return;
  const std::int64_t place = memory_.first[static_cast<std::size_t>(unit.value)];
  taken_.push_back(take(ops, place, layout::owned_runs(of, {0, of.elements}), gradient, 0));
}

// Gradients are those of the mean over the step: a micro-batch's own mean is as many times larger as there are micro-batches.
GradientNoise NoiseMeter::measure(ops::Ops& ops, TrainingState& state, std::int64_t targets) {
  download(ops.stream(), memory_.squares);
  std::array<double, 2> sums{sum_of(taken_), 0};
  // A unit's gradient may come in pieces, one after another in the same memory: each is waited for.
  state.for_each({.weights = false, .gradients = true}, [&](const StateRange& range) {
    if (range.unit == sizes_.tied) return;
    const layout::Unit& unit = state.units()[static_cast<std::size_t>(range.unit.value)];
    const layout::Range places = take(ops, 0, layout::owned_runs(unit, range.own), range.gradient, range.range.first);
    if (places.count == 0) return;
    download(ops.stream(), memory_.squares.flat(0, places.count));
    sums[1] += sum_of({&places, 1});
  });
  group_.host().all_reduce(view(std::span<double>(sums), Shape{2}), comm::Reduction::sum).wait();
  const auto m = static_cast<double>(sizes_.microbatches);
  const double small = sums[0] * m * m / sizes_.first, large = sums[1];
  return {
      .steps = 1, .square = (m * large - small) / (m - 1), .variance = (small - large) * static_cast<double>(targets) / (m - 1)};
}

}  // namespace lockstep::parallel
