// Parameters cut over servers.

#include "layout/key_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace lockstep::layout {
namespace {

std::vector<Unit> units() {
  std::vector<Unit> all;
  for (const std::int64_t elements : {300, 5000, 20000, 20000, 100}) {
    all.push_back(
        make_unit("u" + std::to_string(all.size()), {{.name = "w", .shape = Shape{elements}, .decay = true, .role = 0}}));
  }
  return all;
}

KeyRanges cut(int workers, int servers) {
  const std::vector<UnitIndex> order{{4}, {1}, {3}, {2}, {0}};
  return {units(), order, UnitIndex{1}, workers, servers};
}

TEST(KeyRanges, EveryElementHasOneServer) {
  for (const int workers : {1, 2, 3, 5, 8}) {
    for (const int servers : {1, 2, 3, 7}) {
      const KeyRanges ranges = cut(workers, servers);
      for (int u = 0; u < ranges.unit_count(); ++u) {
        std::vector<int> owners(static_cast<std::size_t>(ranges.unit(UnitIndex{u}).elements));
        for (int s = 0; s < servers; ++s) {
          const Range range = ranges.of(UnitIndex{u}, s);
          for (std::int64_t i = 0; i < range.count; ++i) ++owners[static_cast<std::size_t>(range.first + i)];
        }
        EXPECT_TRUE(std::ranges::all_of(owners, [](int n) { return n == 1; })) << workers << ' ' << servers << ' ' << u;
      }
    }
  }
}

// A server's part is whole ranges of data parallelism over the workers.
TEST(KeyRanges, PartsAreWholeRangesOfTheWorkers) {
  const KeyRanges ranges = cut(5, 2);
  for (int u = 0; u < ranges.unit_count(); ++u) {
    for (int s = 0; s < 2; ++s) {
      const KeyRanges::Cells cells = ranges.cells(UnitIndex{u}, s);
      std::int64_t count = 0;
      for (int c = cells.first; c < cells.last; ++c) count += ranges.cell(UnitIndex{u}, c).count;
      EXPECT_EQ(ranges.of(UnitIndex{u}, s).count, count);
    }
  }
}

// One worker leaves whole units, which go to the servers in turn.
TEST(KeyRanges, ServersTakeTurns) {
  const KeyRanges ranges = cut(1, 2);
  for (int u = 0; u < ranges.unit_count(); ++u) {
    const std::int64_t first = ranges.of(UnitIndex{u}, 0).count, second = ranges.of(UnitIndex{u}, 1).count;
    EXPECT_EQ(std::min(first, second), 0);
    EXPECT_EQ(first > 0, u % 2 == 1);
  }
}

TEST(KeyRanges, ATiedMatrixGoesLastAndItsRowsHaveNoPadding) {
  const KeyRanges ranges = cut(3, 2);
  EXPECT_EQ(ranges.order(), (std::vector<UnitIndex>{{4}, {3}, {2}, {0}, {1}}));
  EXPECT_EQ(ranges.tied(0).count + ranges.tied(1).count, 5000);
  EXPECT_GT(ranges.unit(UnitIndex{1}).elements, 5000);
  const KeyRanges untied(units(), {{4}, {1}, {3}, {2}, {0}}, UnitIndex{-1}, 3, 2);
  EXPECT_EQ(untied.order().back(), UnitIndex{0});
  EXPECT_EQ(untied.tied(0).count, 0);
}

TEST(KeyRanges, ThereIsAWorkerAndAServer) {
  EXPECT_THROW(cut(0, 1), BrokenRule);
  EXPECT_THROW(cut(1, 0), BrokenRule);
  EXPECT_THROW(KeyRanges(units(), {{0}}, UnitIndex{-1}, 1, 1), BrokenRule);
}

}  // namespace
}  // namespace lockstep::layout
