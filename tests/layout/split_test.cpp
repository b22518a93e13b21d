#include "layout/pipeline/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace lockstep::layout {
namespace {

using Split = std::vector<std::int64_t>;

TEST(Split, StagesThatCostTheSameHaveAsManyBlocks) {
  EXPECT_EQ(balanced_split(StageMap::looped(4, 1), 12, {}), (Split{3, 3, 3, 3}));
  EXPECT_EQ(even_split(4, 10), (Split{2, 3, 2, 3}));
  EXPECT_EQ(to_string(Split{4, 4, 3, 1}), "4,4,3,1");
}

TEST(Split, TheStageWithTheHeadHasFewerBlocks) {
  EXPECT_EQ(balanced_split(StageMap::looped(4, 1), 12, {.block = 1, .head = 3}), (Split{4, 4, 3, 1}));
  EXPECT_EQ(balanced_split(StageMap::looped(2, 1), 12, {.block = 1, .head = 100}), (Split{11, 1}));
}

// The first rank has the head too, and of its two stages that with the head the fewer blocks.
TEST(Split, InAVTheRankThatHasBothEndsHasFewerBlocks) {
  EXPECT_EQ(balanced_split(StageMap::vee(2), 10, {.block = 1, .head = 2}), (Split{3, 3, 3, 1}));
}

TEST(Split, NoRankHasMoreThanABlockTooMuch) {
  for (const StageMap& map : {StageMap::looped(3, 1), StageMap::looped(3, 2), StageMap::vee(3)}) {
    for (const double head : {0.0, 0.5, 2.3, 4.0}) {
      for (std::int64_t layers = 24; layers < 30; ++layers) {
        const Split split = balanced_split(map, layers, {.block = 1, .head = head});
        EXPECT_EQ(std::accumulate(split.begin(), split.end(), std::int64_t{0}), layers);
        EXPECT_GE(std::ranges::min(split), 1);
        std::vector<double> work(3);
        for (int stage = 0; stage < map.stages(); ++stage)
          work[static_cast<std::size_t>(map.rank_of(stage))] += static_cast<double>(split[static_cast<std::size_t>(stage)]);
        work[static_cast<std::size_t>(map.last_rank())] += head;
        EXPECT_LE(std::ranges::max(work) - std::ranges::min(work), 1) << to_string(split);
      }
    }
  }
}

TEST(Split, FewerLayersThanStagesAreRefused) { EXPECT_THROW(balanced_split(StageMap::looped(4, 1), 3, {}), BrokenRule); }

}  // namespace
}  // namespace lockstep::layout
