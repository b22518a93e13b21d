#pragma once

// e^x and ln x in double, by the same operations as base/math/elementary.cpp, which says how they work.

#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace lockstep::ops::cuda {

inline constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;

/// A number as a sum, whose second part is below the first's last place.
struct TwoParts {
  double high, low;
};

/// a + b without an error, for |a| >= |b|.
__device__ __forceinline__ TwoParts exact_sum(double a, double b) {
  const double high = a + b;
  return {high, b - (high - a)};
}

/// 1 / 3, 1 / 5, ...
constexpr std::array<double, 13> odd_fractions() {
  std::array<double, 13> terms{};
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = 1.0 / static_cast<double>(2 * i + 3);
  return terms;
}

/// 1 / n! for n = first, first + 2, ...
template <int first>
constexpr std::array<double, 7> factorial_series() {
  std::array<double, 7> terms{};
  double factorial = 1;
  for (int n = 1; n < first + 14; ++n) {
    factorial *= n;
    if (n >= first && (n - first) % 2 == 0) terms[static_cast<std::size_t>((n - first) / 2)] = 1 / factorial;
  }
  return terms;
}

/// 2^k for a normal power.
__device__ __forceinline__ double power_of_two(std::int64_t k) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + k) << 52U);
}

/// ln x for what is not subnormal. NaN of a negative x and of NaN, -infinity of 0.
__device__ __forceinline__ double logarithm(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (!(x > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x > std::numeric_limits<double>::max()) return x;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  std::int64_t exponent = static_cast<std::int64_t>(bits >> 52U) - 1022;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFU) | 0x3FE0000000000000U);  // in [1/2, 1)
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  const auto e = static_cast<double>(exponent);
  const double above = m - 1, below = m + 1, below_rest = m - (below - 1), s = above / below;
  const double rest = (fma(-s, below, above) - s * below_rest) / below;
  constexpr std::array<double, 13> fractions = odd_fractions();
  const double square = s * s;
  double tail = 0;
  for (std::size_t i = fractions.size(); i-- > 0;) tail = tail * square + fractions[i];
  const TwoParts sum = exact_sum(e * ln2_high, 2 * s);
  return exact_sum(sum.high, sum.low + (2 * (rest + s * square * tail) + e * ln2_low)).high;
}

/// e^x for x <= 0. 0 below some -746; NaN of NaN.
__device__ __forceinline__ double exponential_below_one(double x) {
  if (x < -746) return 0;
  if (!(x <= 0)) return x;
  const double k = nearbyint(x * std::numbers::log2e);
  const TwoParts r = exact_sum(x - k * ln2_high, 0 - k * ln2_low);
  constexpr std::array<double, 7> even = factorial_series<2>(), odd = factorial_series<3>();
  const double square = r.high * r.high;
  double even_sum = 0, odd_sum = 0;
  for (std::size_t i = even.size(); i-- > 0;) {
    even_sum = even_sum * square + even[i];
    odd_sum = odd_sum * square + odd[i];
  }
  const TwoParts sum = exact_sum(1, r.high);
  const double value = sum.high + (sum.low + (r.low + square * (even_sum + r.high * odd_sum)));
  const auto power = static_cast<std::int64_t>(k);
  if (power > -1000) return value * power_of_two(power);
  return value * power_of_two(-1000) * power_of_two(power + 1000);  // a subnormal result is rounded once
}

}  // namespace lockstep::ops::cuda
