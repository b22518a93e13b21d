#include "arch/rotary.h"

#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace lockstep::arch {
namespace {

/// 1 / n! with alternating signs for n = first, first + 2, ...
template <int first>
constexpr std::array<double, 10> alternating_series() {
  std::array<double, 10> terms{};
  double factorial = 1;
  for (int n = 1; n < first + 20; ++n) {
    factorial *= n;
    const int i = (n - first) / 2;
    if (n >= first && (n - first) % 2 == 0) terms[static_cast<std::size_t>(i)] = (i % 2 == 0 ? 1 : -1) / factorial;
  }
  return terms;
}

/// terms[0] + terms[1] x + ...
double polynomial(const std::array<double, 10>& terms, double x) {
  double sum = 0;
  for (std::size_t i = terms.size(); i-- > 0;) sum = std::fma(sum, x, terms[i]);
  return sum;
}

struct Point {
  double cosine, sine;
};

/// For 0 <= angle < 2^31: the quarter turns are taken off first, pi/2 in two parts.
Point point_at(double angle) {
  const double quarters = std::nearbyint(angle * (2 / std::numbers::pi));
  double r = std::fma(-quarters, 1.5707963267948966, angle);
  r = std::fma(-quarters, 6.123233995736766e-17, r);
  const double square = r * r;
  // To r^19 and r^20: what is left out is below 1e-20 for |r| <= pi / 4.
  constexpr std::array<double, 10> sine_terms = alternating_series<1>(), cosine_terms = alternating_series<2>();
  const double sine = r * polynomial(sine_terms, square);
  const double cosine = std::fma(-square, polynomial(cosine_terms, square), 1.0);
  switch (static_cast<std::int64_t>(quarters) % 4) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

/// Llama 3.1: long waves get `factor` times longer, short ones stay, those between go over smoothly.
double llama3_scaled(const Rope& rope, double frequency) {
  const auto original = static_cast<double>(rope.original_block_size);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  const double kept = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

}  // namespace

std::vector<float> rotary_frequencies(const ModelConfig& config) {
  ensure(config.head_size % 2 == 0, "rotary positions turn pairs of features");
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < config.head_size; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(config.head_size);
    const double frequency = 1 / std::pow(config.rope.theta, exponent);
    const bool scaled = config.rope.scaling == RopeScaling::llama3;
    frequencies.push_back(static_cast<float>(scaled ? llama3_scaled(config.rope, frequency) : frequency));
  }
  return frequencies;
}

void rotary_angles(std::span<float> angles, std::span<const float> frequencies, std::int64_t position) {
  ensure(angles.size() == 2 * frequencies.size(), "a position has a cosine and a sine for every frequency");
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const Point point = point_at(static_cast<double>(position) * static_cast<double>(frequencies[i]));
    angles[i] = static_cast<float>(point.cosine);
    angles[frequencies.size() + i] = static_cast<float>(point.sine);
  }
}

}  // namespace lockstep::arch
