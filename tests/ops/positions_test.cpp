#include "ops/positions.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::ops {
namespace {

std::vector<std::int64_t> all(const Positions& positions) {
  std::vector<std::int64_t> values;
  for (std::int64_t row = 0; row < positions.count(); ++row) values.push_back(positions.at(row));
  return values;
}

TEST(Positions, OfOneRunAndOfTwo) {
  EXPECT_EQ(all(Positions()), std::vector<std::int64_t>{});
  EXPECT_EQ(all({3, 2}), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(all({{2, 2}, {7, 3}}), (std::vector<std::int64_t>{2, 3, 7, 8, 9}));
  EXPECT_EQ(all({{2, 0}, {7, 1}}), std::vector<std::int64_t>{7});
  EXPECT_EQ(Positions(3, 2).end(), 5);
  EXPECT_EQ(Positions({2, 2}, {7, 3}).end(), 10);
  EXPECT_EQ(Positions({2, 2}, {7, 0}).end(), 4);
}

TEST(Positions, PartsHaveSomeOfTheRows) {
  const Positions two({2, 2}, {7, 3}), one(3, 4);
  for (const Positions& whole : {two, one, Positions()}) {
    for (std::int64_t first = 0; first <= whole.count(); ++first) {
      for (std::int64_t count = 0; first + count <= whole.count(); ++count) {
        const std::vector<std::int64_t> expected = all(whole);
        EXPECT_EQ(all(whole.part(first, count)),
                  std::vector<std::int64_t>(expected.begin() + first, expected.begin() + first + count));
      }
    }
  }
  EXPECT_THROW((void)two.part(2, 4), BrokenRule);
  EXPECT_THROW((void)two.part(-1, 2), BrokenRule);
  EXPECT_THROW((void)two.part(1, -1), BrokenRule);
}

TEST(Positions, GoUp) {
  EXPECT_THROW(Positions(-1, 2), BrokenRule);
  EXPECT_THROW(Positions(1, -2), BrokenRule);
  EXPECT_THROW(Positions({0, 3}, {2, 1}), BrokenRule) << "position 2 is in both";
  EXPECT_THROW(Positions({5, 2}, {0, 1}), BrokenRule);
  EXPECT_THROW(Positions({0, 3}, {3, -1}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::ops
