#include "base/number_text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep {
namespace {

TEST(NumberText, AllOfTheTextIsTheNumber) {
  EXPECT_EQ(number_from<int>("-12"), -12);
  EXPECT_EQ(number_from<std::int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(number_from<double>("2.5e-3"), 2.5e-3);
  for (const char* text : {"", " 1", "1 ", "1x", "x", "+1", "1.5", "2147483648"})
    EXPECT_EQ(number_from<int>(text), std::nullopt) << text;
}

}  // namespace
}  // namespace lockstep
