// Functions of our own against the C library's in long double, and their bits against those of every other build.

#include "base/math/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>

#include "base/error.h"

namespace lockstep {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// In units of the last place of a double near `right`.
double error_of(double made, long double right) {
  const double place = std::max(std::abs(static_cast<double>(right)), std::numeric_limits<double>::min());
  return static_cast<double>(std::abs(made - right)) / (std::nextafter(place, infinity) - place);
}

/// Arguments without a pattern: number i of a walk through [low, high].
double argument(std::int64_t i, double low, double high) {
  const double turns = static_cast<double>(i) * 0.6180339887498949;
  return low + (high - low) * (turns - std::floor(turns));
}

TEST(Elementary, IsWithinThreeQuartersOfALastPlace) {
  double exponentials = 0, logarithms = 0, powers = 0, points = 0;
  for (std::int64_t i = 1; i < 100000; ++i) {
    for (const double high : {700.0, 1.0, 1e-3}) {
      const double x = argument(i, -high, high);
      exponentials = std::max(exponentials, error_of(exponential(x), std::exp(static_cast<long double>(x))));
    }
    for (const double x : {argument(i, 0.4, 2.5), std::ldexp(argument(i, 1, 2), static_cast<int>(i % 2000) - 1000)})
      logarithms = std::max(logarithms, error_of(logarithm(x), std::log(static_cast<long double>(x))));
    const double theta = argument(i, 2, 1e6), share = argument(i * 7, 0, 1), beta = argument(i, 0.8, 0.9999);
    const auto update = static_cast<double>(i % 5000 + 1);
    for (const auto& [x, y] : {std::pair(theta, share), std::pair(beta, update)}) {
      const double far = std::abs(y * std::log(x)) / 50;
      powers = std::max(powers, error_of(power(x, y), std::pow(static_cast<long double>(x), y)) - far);
    }
    const double angle = argument(i, 0, 3.14);
    points =
        std::max(points, std::abs(static_cast<double>(circle_point(angle).cosine - std::cos(static_cast<long double>(angle)))));
  }
  EXPECT_LT(exponentials, 0.75);
  EXPECT_LT(logarithms, 0.75);
  EXPECT_LT(powers, 0.75);
  EXPECT_LT(points, 0x1p-52);
}

TEST(Elementary, HasTheValuesThatAreKnownExactly) {
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-0.0), 1);
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_EQ(exponential(710), infinity);
  EXPECT_EQ(exponential(-infinity), 0);
  EXPECT_EQ(exponential(-746), 0);
  EXPECT_EQ(exponential(-745), std::numeric_limits<double>::denorm_min());
  EXPECT_LT(error_of(exponential(709.5), std::exp(709.5L)), 0.75);
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(logarithm(1), 0);
  EXPECT_EQ(logarithm(2), std::numbers::ln2);
  EXPECT_EQ(logarithm(std::numeric_limits<double>::denorm_min()), -1074 * std::numbers::ln2);
  EXPECT_EQ(logarithm(0), -infinity);
  EXPECT_EQ(logarithm(infinity), infinity);
  EXPECT_TRUE(std::isnan(logarithm(-1)));
  EXPECT_TRUE(std::isnan(logarithm(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(power(10000, 0), 1);
  EXPECT_EQ(power(10000, 0.5), 100);
  EXPECT_EQ(power(1, 1e9), 1);
  EXPECT_EQ(power(0.9, 1e9), 0);
  EXPECT_EQ(power(0, 3), 0);
  EXPECT_EQ(power(0, 0), 1);
  EXPECT_EQ(circle_point(0).cosine, 1);
  EXPECT_EQ(circle_point(std::numbers::pi).cosine, -1);
}

TEST(Elementary, APowerOfOtherNumbersIsABug) {
  EXPECT_THROW(power(-1, 2), BrokenRule);
  EXPECT_THROW(power(2, -1), BrokenRule);
  EXPECT_THROW(power(infinity, 1), BrokenRule);
  EXPECT_THROW(power(std::numeric_limits<double>::quiet_NaN(), 1), BrokenRule);
}

// The number is a property of the sequences of operations: whatever compiler, optimisation, C library and processor made this
// program, it is the same.
TEST(Elementary, HasTheSameBitsInEveryBuild) {
  std::uint64_t all = 0;
  const auto add = [&all](double value) { all = (all ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3; };
  for (std::int64_t i = 1; i < 20000; ++i) {
    add(exponential(argument(i, -745, 709)));
    add(exponential(argument(i, -1, 1)));
    add(logarithm(argument(i, 0.5, 1e6)));
    add(power(argument(i, 0.9, 0.9999), static_cast<double>(i)));
    add(power(argument(i, 1, 1e6), argument(i * 3, 0, 1)));
    const CirclePoint point = circle_point(argument(i, 0, 1e6));
    add(point.cosine);
    add(point.sine);
  }
  EXPECT_EQ(all, 203052129115552278U);
}

}  // namespace
}  // namespace lockstep
