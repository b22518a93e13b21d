#include "arch/rotary.h"

#include <numbers>

#include "base/error.h"
#include "base/math/elementary.h"

namespace lockstep::arch {
namespace {

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
    const double frequency = 1 / power(config.rope.theta, exponent);
    const bool scaled = config.rope.scaling == RopeScaling::llama3;
    frequencies.push_back(static_cast<float>(scaled ? llama3_scaled(config.rope, frequency) : frequency));
  }
  return frequencies;
}

void rotary_angles(std::span<float> angles, std::span<const float> frequencies, std::int64_t position) {
  ensure(angles.size() == 2 * frequencies.size(), "a position has a cosine and a sine for every frequency");
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const CirclePoint point = circle_point(static_cast<double>(position) * static_cast<double>(frequencies[i]));
    angles[i] = static_cast<float>(point.cosine);
    angles[frequencies.size() + i] = static_cast<float>(point.sine);
  }
}

}  // namespace lockstep::arch
