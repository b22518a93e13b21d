#include "arch/rotary.h"

#include <algorithm>
#include <cmath>
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

/// YaRN: the first pairs stay, the last ones get `factor` times longer; between them a ramp over the pairs' numbers.
class Yarn {
 public:
  explicit Yarn(const ModelConfig& config)
      : factor_(config.rope.factor),
        low_(std::max(std::floor(pair_of(config, config.rope.high_freq_factor)), 0.0)),
        high_(std::min(std::ceil(pair_of(config, config.rope.low_freq_factor)), static_cast<double>(config.head_size - 1))) {
    if (low_ == high_) high_ += 0.001;
  }
  double scaled(double frequency, std::int64_t pair) const {
    const double stretched = std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
    return frequency / factor_ * stretched + frequency * (1 - stretched);
  }

 private:
  /// The pair that turns so many times within the original context.
  static double pair_of(const ModelConfig& config, double turns) {
    const double longest = static_cast<double>(config.rope.original_block_size) / (turns * 2 * std::numbers::pi);
    return static_cast<double>(config.head_size) * logarithm(longest) / (2 * logarithm(config.rope.theta));
  }
  double factor_, low_, high_;
};

double scaled(const ModelConfig& config, double frequency, std::int64_t pair) {
  switch (config.rope.scaling) {
    case RopeScaling::none:
    case RopeScaling::dynamic:
      return frequency;
    case RopeScaling::linear:
      return frequency / config.rope.factor;
    case RopeScaling::llama3:
      return llama3_scaled(config.rope, frequency);
    case RopeScaling::yarn:
      return Yarn(config).scaled(frequency, pair);
    case RopeScaling::longrope:
      return frequency / longrope_factors(config)[static_cast<std::size_t>(pair)];
  }
  throw BrokenRule("a scaling is one of these");
}

}  // namespace

std::vector<float> rotary_frequencies(const ModelConfig& config) {
  ensure(config.head_size % 2 == 0, "rotary positions turn pairs of features");
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < config.head_size; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(config.head_size);
    frequencies.push_back(static_cast<float>(scaled(config, 1 / power(config.rope.theta, exponent), i / 2)));
  }
  return frequencies;
}

std::vector<float> local_rotary_frequencies(const ModelConfig& config) {
  ModelConfig local = config;
  local.rope = {.theta = config.rope.local_theta};
  return rotary_frequencies(local);
}

void rotary_angles(std::span<float> angles, std::span<const float> frequencies, std::int64_t position, double length) {
  ensure(angles.size() == 2 * frequencies.size(), "a position has a cosine and a sine for every frequency");
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const CirclePoint point = circle_point(static_cast<double>(position) * static_cast<double>(frequencies[i]));
    angles[i] = static_cast<float>(length * point.cosine);
    angles[frequencies.size() + i] = static_cast<float>(length * point.sine);
  }
}

}  // namespace lockstep::arch
