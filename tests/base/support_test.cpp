// What tests compare and wait with.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <vector>

#include "support/largest.h"
#include "support/patience.h"

namespace lockstep::support {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

TEST(Largest, WhatIsNoNumberStaysTheLargest) {
  for (const std::vector<double>& given : {std::vector<double>{nan}, {1, nan}, {nan, 1}, {1, nan, 2}, {nan, 2, 1, 3}}) {
    Largest largest;
    for (const double distance : given) largest.take(distance);
    EXPECT_EQ(largest.value(), infinity);
  }
  Largest largest;
  EXPECT_EQ(largest.value(), 0);
  EXPECT_TRUE(largest.take(2));
  EXPECT_FALSE(largest.take(1));
  EXPECT_TRUE(largest.take(3));
  EXPECT_EQ(largest.value(), 3);
}

TEST(Largest, OfDifferencesSeesBothOperands) {
  using Values = std::vector<float>;
  constexpr auto none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(largest_difference(Values{1, 5, 3}, std::array<double, 3>{1, 3, 4}), 2);
  EXPECT_EQ(largest_difference(Values{}, Values{}), 0);
  for (const std::size_t at : {0U, 1U, 2U}) {
    Values good{1, 2, 3}, bad = good;
    bad[at] = none;
    EXPECT_EQ(largest_difference(bad, good), infinity);
    EXPECT_EQ(largest_difference(good, bad), infinity);
    EXPECT_EQ(largest_difference(bad, bad), infinity);
  }
  EXPECT_EQ(largest_difference(Values{1}, Values{1, 2}), infinity);
}

TEST(Patience, EndsWhereNothingComes) {
  int asked = 0;
  EXPECT_TRUE(comes_true([&] { return ++asked == 5; }));
  EXPECT_EQ(asked, 5);
  EXPECT_FALSE(comes_true([] { return false; }, std::chrono::milliseconds(1), std::chrono::milliseconds(20)));
}

TEST(Patience, AChildThatDoesNotEndIsEnded) {
  pid_t child = fork();
  if (child == 0) _exit(7);
  EXPECT_EQ(WEXITSTATUS(status_of(child)), 7);
  child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  int status = 0;
  EXPECT_NONFATAL_FAILURE(status = status_of(child, std::chrono::milliseconds(20)), "has not ended in time");
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

}  // namespace
}  // namespace lockstep::support
