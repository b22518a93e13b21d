#include "base/error.h"

#include <gtest/gtest.h>

#include "base/checked.h"

namespace lockstep {
namespace {

TEST(Error, UserErrorListsEveryProblemWithItsRemedy) {
  const UserError error(std::vector<Problem>{{"heads 5 does not divide width 128", "use 4 or 8 heads"}, {"block_size is 0", ""}});
  EXPECT_STREQ(error.what(), "heads 5 does not divide width 128\n  -> use 4 or 8 heads\nblock_size is 0");
  EXPECT_EQ(error.problems().size(), 2U);
}

TEST(Error, EnsureNamesPlaceAndRule) {
  EXPECT_NO_THROW(ensure(true, "never seen"));
  try {
    ensure(false, "water is wet");
    FAIL() << "nothing was thrown";
  } catch (const BrokenRule& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("water is wet"), std::string::npos);
    EXPECT_NE(text.find("error_test.cpp"), std::string::npos);
  }
}

TEST(Error, NearestName) {
  const std::vector<std::string> known{"block_size", "batch_size", "n_head"};
  EXPECT_EQ(nearest_name("blocksize", known), "block_size");
  EXPECT_EQ(nearest_name("batch_sise", known), "batch_size");
  EXPECT_EQ(nearest_name("zebra", known), "");
}

TEST(Checked, ArithmeticSaysWhenItGoesWrong) {
  EXPECT_EQ(narrow<std::int8_t>(127), 127);
  EXPECT_THROW(narrow<std::int8_t>(128), BrokenRule);
  EXPECT_THROW(narrow<std::uint32_t>(-1), BrokenRule);
  EXPECT_EQ(div_up(7, 3), 3);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(multiply(1LL << 31, 1LL << 31), 1LL << 62);
  EXPECT_THROW(multiply(1LL << 32, 1LL << 31), BrokenRule);
}

}  // namespace
}  // namespace lockstep
