// Where axes have ticks, and what stands beside them.

#include "base/text/ticks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

std::string texts(double low, double high, int most, bool whole = false) {
  std::string all;
  for (const Tick& tick : ticks_of({low, high}, most, whole)) all += (all.empty() ? "" : " ") + tick.text;
  return all;
}

TEST(Ticks, StandAtMultiplesOfOneTwoOrFive) {
  EXPECT_EQ(texts(0, 10, 6), "0 2 4 6 8 10");
  EXPECT_EQ(texts(1.62, 4.2, 7), "2.0 2.5 3.0 3.5 4.0");
  EXPECT_EQ(texts(-0.3, 0.3, 7), "-0.3 -0.2 -0.1 0.0 0.1 0.2 0.3");
  EXPECT_EQ(texts(1, 9, 2), "5");
  EXPECT_EQ(texts(-50, 120, 5), "-50 0 50 100");
  EXPECT_EQ(texts(0, 9999, 3), "0 5000");
}

TEST(Ticks, NumbersAreShort) {
  EXPECT_EQ(texts(325000, 386540, 7), "330k 340k 350k 360k 370k 380k");
  EXPECT_EQ(texts(0, 20000, 5), "0 5k 10k 15k 20k");
  EXPECT_EQ(texts(0, 3.1e6, 7), "0 0.5M 1.0M 1.5M 2.0M 2.5M 3.0M");
  EXPECT_EQ(texts(0, 2e-4, 3), "0 0.0001 0.0002");
  EXPECT_EQ(texts(1e6, 1e6 + 40, 5), "1000000 1000010 1000020 1000030 1000040");
  EXPECT_EQ(texts(0, 1e40, 3), "0 5e+39 1e+40");
}

TEST(Ticks, CountsHaveNoFractions) {
  EXPECT_EQ(texts(0, 2, 12), "0.0 0.2 0.4 0.6 0.8 1.0 1.2 1.4 1.6 1.8 2.0");
  EXPECT_EQ(texts(0, 2, 12, true), "0 1 2");
  EXPECT_EQ(texts(4.5, 5.5, 12, true), "5");
}

TEST(Extent, TakesWhatIsFiniteAndHasAWidth) {
  Extent extent;
  extent.include(std::nan(""));
  extent.include(INFINITY);
  extent.settle();
  EXPECT_EQ(extent.low, -1);
  EXPECT_EQ(extent.high, 1);
  Extent one;
  one.include(-50);
  one.settle();
  EXPECT_EQ(one.low, -55);
  EXPECT_EQ(one.high, -45);
  EXPECT_EQ(one.part(-50), 0.5);
  Extent huge;
  for (const double value : {1.7e308, -1.7e308}) huge.include(value);
  huge.settle();
  EXPECT_EQ(huge.part(0), 0.5);
  EXPECT_EQ(ticks_of(huge, 7).size(), 5U);
}

}  // namespace
}  // namespace lockstep
