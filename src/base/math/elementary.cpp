#include "base/math/elementary.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include "base/error.h"

namespace lockstep {
namespace {

// ln 2 in two parts: the first has 33 bits, so that its product with an exponent is exact.
constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;

/// A number as a sum, whose second part is below the first's last place.
struct Sum {
  double high, low;
};

/// a + b without an error, for |a| >= |b|.
Sum exact_sum(double a, double b) {
  const double high = a + b;
  return {high, b - (high - a)};
}

/// terms[0] + terms[1] x + ...
template <std::size_t count>
double polynomial(const std::array<double, count>& terms, double x) {
  double sum = 0;
  for (std::size_t i = count; i-- > 0;) sum = sum * x + terms[i];
  return sum;
}

/// 1 / 3, 1 / 5, ...
constexpr std::array<double, 13> odd_fractions() {
  std::array<double, 13> terms{};
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = 1.0 / static_cast<double>(2 * i + 3);
  return terms;
}

/// 1 / n! for n = first, first + 2, ..., whose signs may alternate.
template <int first, std::size_t count, bool alternates>
constexpr std::array<double, count> factorial_series() {
  std::array<double, count> terms{};
  double factorial = 1;
  for (int n = 1, i = 0; i < static_cast<int>(count); ++n) {
    factorial *= n;
    if (n < first || (n - first) % 2 != 0) continue;
    terms[static_cast<std::size_t>(i)] = (alternates && i % 2 != 0 ? -1 : 1) / factorial;
    ++i;
  }
  return terms;
}

/// polynomial() with fused multiply-adds: rotary angles have had this order from the start.
double fused_polynomial(const std::array<double, 10>& terms, double x) {
  double sum = 0;
  for (std::size_t i = terms.size(); i-- > 0;) sum = std::fma(sum, x, terms[i]);
  return sum;
}

/// ln x to some 60 bits, for finite x > 0. With `x = m 2^e` and m in [sqrt(1/2), sqrt(2)), it is `e ln 2 + 2 atanh(s)`. Here
/// `s = (m - 1) / (m + 1)`, and `atanh(s) = s + s^3 / 3 + s^5 / 5 + ...`; what is left out is below 2^-70 of it.
Sum logarithm_sum(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  const double e = exponent, above = m - 1;
  const Sum below{m + 1, m - ((m + 1) - 1)};
  const double s = above / below.high;
  const double rest = (std::fma(-s, below.high, above) - s * below.low) / below.high;  // of the division
  constexpr std::array<double, 13> fractions = odd_fractions();
  const double square = s * s, tail = s * square * polynomial(fractions, square);
  const Sum sum = exact_sum(e * ln2_high, 2 * s);
  return exact_sum(sum.high, sum.low + (2 * (rest + tail) + e * ln2_low));
}

/// e^(high + low). With k the nearest whole number to x / ln 2, it is 2^k e^r, where |r| <= ln 2 / 2. The series of e^r goes to
/// r^15; what is left out is below 2^-68.
double exponential_of(const Sum& x) {
  if (std::isnan(x.high)) return x.high;
  if (x.high > 710) return std::numeric_limits<double>::infinity();
  if (x.high < -746) return 0;
  const double k = std::nearbyint(x.high * std::numbers::log2e);
  const Sum r = exact_sum(x.high - k * ln2_high, x.low - k * ln2_low);
  constexpr auto even = factorial_series<2, 7, false>(), odd = factorial_series<3, 7, false>();
  const double square = r.high * r.high;
  const double tail = square * (polynomial(even, square) + r.high * polynomial(odd, square));
  const Sum sum = exact_sum(1, r.high);
  const double value = sum.high + (sum.low + (r.low + tail));
  if (std::abs(k) > 1000) return std::ldexp(value, static_cast<int>(k));  // which may leave the range of normal numbers
  return value * std::bit_cast<double>(static_cast<std::uint64_t>(1023 + static_cast<std::int64_t>(k)) << 52);
}

}  // namespace

double exponential(double x) { return exponential_of({x, 0}); }

double logarithm(double x) {
  if (x > 0 && x <= std::numeric_limits<double>::max()) return logarithm_sum(x).high;
  if (x == 0) return -std::numeric_limits<double>::infinity();
  return x > 0 ? x : std::numeric_limits<double>::quiet_NaN();
}

double power(double x, double y) {
  ensure(x >= 0 && y >= 0 && std::isfinite(x) && std::isfinite(y), "a power is of finite numbers that are not negative");
  if (x == 0) return y == 0 ? 1 : 0;
  const Sum log = logarithm_sum(x);
  const double product = y * log.high;
  return exponential_of({product, std::fma(y, log.high, -product) + y * log.low});
}

CirclePoint circle_point(double angle) {
  // The quarter turns are taken off first, pi/2 in two parts.
  const double quarters = std::nearbyint(angle * (2 / std::numbers::pi));
  double r = std::fma(-quarters, 1.5707963267948966, angle);
  r = std::fma(-quarters, 6.123233995736766e-17, r);
  const double square = r * r;
  // To r^19 and r^20: what is left out is below 1e-20 for |r| <= pi / 4.
  constexpr auto sine_terms = factorial_series<1, 10, true>(), cosine_terms = factorial_series<2, 10, true>();
  const double sine = r * fused_polynomial(sine_terms, square);
  const double cosine = std::fma(-square, fused_polynomial(cosine_terms, square), 1.0);
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

}  // namespace lockstep
