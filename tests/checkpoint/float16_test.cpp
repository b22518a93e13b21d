// Half precision, all of it.

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/huggingface/elements.h"

namespace lockstep::checkpoint::huggingface {
namespace {

TEST(Float16, EveryValueComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = to_float(static_cast<Float16>(bits));
    const auto back = static_cast<std::uint32_t>(to_float16(wide));
    if (std::isnan(wide)) {
      EXPECT_EQ(back, bits | 0x200U);  // quiet
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(Float16, ValuesAreIeees) {
  EXPECT_EQ(to_float(static_cast<Float16>(0x3c00)), 1.0F);
  EXPECT_EQ(to_float(static_cast<Float16>(0xc000)), -2.0F);
  EXPECT_EQ(to_float(static_cast<Float16>(0x7bff)), 65504.0F);
  EXPECT_EQ(to_float(static_cast<Float16>(0x0001)), 0x1p-24F);
  EXPECT_EQ(to_float(static_cast<Float16>(0x0400)), 0x1p-14F);
  EXPECT_TRUE(std::isinf(to_float(static_cast<Float16>(0x7c00))));
}

// Between two neighbours the nearer one, in the middle the even one.
TEST(Float16, RoundsToTheNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = to_float(static_cast<Float16>(bits)), high = to_float(static_cast<Float16>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(static_cast<std::uint32_t>(to_float16(middle)), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(static_cast<std::uint32_t>(to_float16(std::nextafter(middle, 0.0F))), bits);
    ASSERT_EQ(static_cast<std::uint32_t>(to_float16(std::nextafter(middle, 1e9F))), bits + 1);
  }
  EXPECT_EQ(static_cast<std::uint32_t>(to_float16(65519.99F)), 0x7bffU);
  EXPECT_EQ(static_cast<std::uint32_t>(to_float16(65520.0F)), 0x7c00U);
  EXPECT_EQ(static_cast<std::uint32_t>(to_float16(-1e30F)), 0xfc00U);
}

}  // namespace
}  // namespace lockstep::checkpoint::huggingface
