#include "ops/reference/math.h"

#include <cmath>
#include <numbers>

namespace lockstep::ops::reference {
namespace {

constexpr double tanh_factor = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double tanh_cubic = 0.044715;

double gelu_slope(double x) {
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * density;
}

double gelu_tanh_slope(double x) {
  const double t = std::tanh(tanh_factor * (x + tanh_cubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * tanh_factor * (1 + 3 * tanh_cubic * x * x);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

double activate(double x, Activation f) {
  switch (f) {
    case Activation::none:
      return x;
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(tanh_factor * (x + tanh_cubic * x * x * x)));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x * sigmoid(x);
  }
  throw BrokenRule("unknown activation");
}

double slope(double x, Activation f) {
  switch (f) {
    case Activation::none:
      return 1;
    case Activation::gelu:
      return gelu_slope(x);
    case Activation::gelu_tanh:
      return gelu_tanh_slope(x);
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::silu:
      return sigmoid(x) * (1 + x * sigmoid(-x));
  }
  throw BrokenRule("unknown activation");
}

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, const std::uint32_t (&key)[2]) {
  std::uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

float dropout_factor(const DropoutSite& site, std::int64_t sample, std::int64_t position, std::int64_t index) {
  if (site.p == 0) return 1;
  index += site.first_index;
  const auto number = static_cast<std::uint64_t>(site.first_sample + sample);
  const auto words = philox({static_cast<std::uint32_t>(index / 4), static_cast<std::uint32_t>(position),
                             static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)},
                            site.key);
  const bool kept = words[static_cast<std::size_t>(index % 4)] >= static_cast<double>(site.p) * 4294967296.0;
  return kept ? 1 / (1 - site.p) : 0;
}

}  // namespace lockstep::ops::reference
