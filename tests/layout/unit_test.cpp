#include "layout/unit.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lockstep::layout {
namespace {

TEST(Unit, RangesTileTheUnitAtCuts) {
  const Unit unit = make_unit("u", {{"a", Shape{3, 100}, true, 0}, {"b", Shape{700}, false, 0}, {"c", Shape{17, 3}, true, 0}});
  EXPECT_EQ(unit.parameters[1].info.name, "c");
  EXPECT_EQ(unit.parameters[1].offset, 304);
  EXPECT_EQ(unit.decayed, 368);
  for (int parts = 1; parts <= 9; ++parts) {
    std::int64_t next = 0;
    for (int part = 0; part < parts; ++part) {
      const Range range = range_of(unit, part, parts);
      EXPECT_EQ(range.first, next);
      EXPECT_EQ(range.first % cut, 0);
      next += range.count;
    }
    EXPECT_EQ(next, unit.elements);
  }
  EXPECT_THROW(range_of(unit, 2, 2), BrokenRule);
}

TEST(Unit, GapsAreWhatNoParameterHas) {
  const Unit unit = make_unit("u", {{"a", Shape{3, 100}, true, 0}, {"b", Shape{700}, false, 0}, {"c", Shape{17, 3}, true, 0}});
  EXPECT_EQ(gaps_of(unit), (std::vector<Range>{{300, 4}, {355, 13}, {1068, unit.elements - 1068}}));
  EXPECT_TRUE(gaps_of(make_unit("u", {{"a", Shape{2 * cut}, true, 0}})).empty());
}

// Two heads a KV head, three ranks: the second KV head's rows are rank 1's, and what all have whole is rank 0's.
TEST(Unit, OwnedRunsOfAllRanksCountEveryElementOnce) {
  const ShardRule heads{0, {{.pieces = 6, .size = 2}, {.pieces = 2, .size = 2, .users = 3}}};
  const std::vector<ParameterInfo> parameters{
      {"heads", Shape{16, 30}, true, 0, heads}, {"columns", Shape{8, 6}, true, 0, {1, {{.pieces = 6}}}}, {"gain", Shape{40}}};
  std::int64_t counted = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const Unit unit = make_unit("u", parameters, {rank, 3});
    for (const int parts : {1, 2}) {
      std::int64_t end = 0;
      for (int part = 0; part < parts; ++part) {
        for (const Range& run : owned_runs(unit, range_of(unit, part, parts))) {
          EXPECT_GE(run.first, end);
          end = run.end();
          counted += run.count;
        }
      }
    }
    for (const Range& gap : gaps_of(unit)) counted -= 2 * gap.count;
  }
  EXPECT_EQ(counted, 2 * (16 * 30 + 8 * 6 + 40));
}

TEST(Unit, OneRankOwnsARangeWhole) {
  Unit unit = make_unit("u", {{"a", Shape{3, 100}, true, 0}, {"b", Shape{700}, false, 0}});
  EXPECT_EQ(owned_runs(unit, {256, 512}), (std::vector<Range>{{256, 512}}));
  EXPECT_TRUE(owned_runs(unit, {256, 0}).empty());
  unit.owned = false;
  EXPECT_TRUE(owned_runs(unit, {256, 512}).empty());
}

}  // namespace
}  // namespace lockstep::layout
