#include "layout/state_cut.h"

#include <gtest/gtest.h>

namespace lockstep::layout {
namespace {

std::vector<StateCut> cuts(const ParallelPlan& plan, CutOver over) {
  const Mesh mesh(plan);
  std::vector<StateCut> all;
  for (int rank = 0; rank < mesh.ranks(); ++rank) all.push_back(state_cut(plan, mesh.coordinates(rank), over));
  return all;
}

Unit unit_of(std::int64_t elements) { return make_unit("unit", {{.name = "w", .shape = Shape{elements}}}); }

TEST(StateCut, SharesOfAUnitAreEvenAndComplete) {
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 6, .ranks_per_host = 2}, ParallelPlan{.dp = 2, .cp = 3, .ranks_per_host = 3},
        ParallelPlan{.dp = 1, .ranks_per_host = 1}}) {
    for (const CutOver over : {CutOver::none, CutOver::host, CutOver::all}) {
      for (const std::int64_t elements : {1, 5 * 256, 100 * 256 + 1}) {
        const Unit unit = unit_of(elements);
        std::vector<int> owners(static_cast<std::size_t>(unit.elements / cut));
        for (const StateCut& mine : cuts(plan, over)) {
          const Range held = mine.held(unit), own = mine.own(unit);
          EXPECT_EQ(overlap(held, own), own.count > 0 ? own : overlap(held, own));
          for (std::int64_t i = own.first; i < own.end(); i += cut) ++owners[static_cast<std::size_t>(i / cut)];
        }
        for (const int count : owners) EXPECT_EQ(count, 1);
      }
    }
  }
}

// Ranks of one host have all parts, ranks with the same number on their hosts the same.
TEST(StateCut, AHostHasAllParts) {
  const std::vector<StateCut> all = cuts({.dp = 6, .ranks_per_host = 3}, CutOver::host);
  const Unit unit = unit_of(12 * 256);
  for (int rank = 0; rank < 6; ++rank) {
    const StateCut& mine = all[static_cast<std::size_t>(rank)];
    EXPECT_EQ(mine.parts, 3);
    EXPECT_EQ(mine.held(unit), (Range{rank % 3 * 4 * 256, 4 * 256}));
    EXPECT_EQ(mine.own(unit), (Range{(rank % 3 * 4 + rank / 3 * 2) * 256, 2 * 256}));
  }
  EXPECT_TRUE(cuts({.dp = 6, .ranks_per_host = 3}, CutOver::none).front().whole());
  EXPECT_EQ(cuts({.dp = 6, .ranks_per_host = 3}, CutOver::all)[4].held(unit), (Range{8 * 256, 2 * 256}));
}

TEST(StateCut, HostsOfDifferentSizesAreRefused) {
  EXPECT_THROW(state_cut({.dp = 3, .ranks_per_host = 2}, {.dp = 0}, CutOver::host), BrokenRule);
}

TEST(StateCut, LevelsCutOneKindMoreEach) {
  for (int level = 0; level <= 3; ++level) {
    ParallelPlan plan;
    set_zero_level(plan, level);
    EXPECT_EQ(plan.optimizer.cut == CutOver::all, level >= 1);
    EXPECT_EQ(plan.gradients.cut == CutOver::all, level >= 2);
    EXPECT_EQ(plan.parameters.cut == CutOver::all, level >= 3);
  }
}

}  // namespace
}  // namespace lockstep::layout
