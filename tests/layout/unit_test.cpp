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

}  // namespace
}  // namespace lockstep::layout
