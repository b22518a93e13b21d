#include "layout/shard.h"

#include <gtest/gtest.h>

namespace lockstep::layout {
namespace {

using Rectangles = std::vector<Rectangle>;

Range everything(const Shard& shard) { return {0, shard.shape().elements()}; }

TEST(PartOf, PartsTileAndNest) {
  for (const std::int64_t n : {0, 1, 7, 64, 1000}) {
    for (int parts = 1; parts <= 9; ++parts) {
      std::int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const Range range = part_of(n, part, parts);
        EXPECT_EQ(range.first, n * part / parts);
        EXPECT_EQ(range.first, next);
        next = range.end();
        EXPECT_EQ(part_of(n, 3 * part, 3 * parts).first, range.first);
      }
      EXPECT_EQ(next, n);
    }
  }
  EXPECT_EQ(part_of(INT64_MAX, 7, 8).end(), INT64_MAX);
  EXPECT_THROW(part_of(4, 2, 2), BrokenRule);
}

TEST(Shard, RowsOfTwoGroups) {
  const ShardRule rule{0, {{.pieces = 5}, {.pieces = 5}}};  // a gate and what it multiplies
  const Shard shard(Shape{10, 4}, rule, {1, 2});
  EXPECT_EQ(shard.shape(), (Shape{6, 4}));
  EXPECT_EQ(shard.rectangles(everything(shard)), (Rectangles{{0, 8, 1, 12, 12}, {12, 28, 1, 12, 12}}));
  EXPECT_EQ(shard.rectangles({10, 3}), (Rectangles{{10, 18, 1, 2, 2}, {12, 28, 1, 1, 1}}));
  EXPECT_TRUE(shard.partial(true).empty());
}

TEST(Shard, ColumnsBeginAndEndWithinRows) {
  const ShardRule rule{1, {{.pieces = 3, .size = 2}}};
  const Shard shard(Shape{5, 6}, rule, {1, 2});
  EXPECT_EQ(shard.shape(), (Shape{5, 4}));
  EXPECT_EQ(shard.rectangles(everything(shard)), (Rectangles{{0, 2, 5, 4, 6}}));
  EXPECT_EQ(shard.rectangles({3, 11}), (Rectangles{{3, 5, 1, 1, 6}, {4, 8, 2, 4, 6}, {12, 20, 1, 2, 6}}));
  EXPECT_EQ(shard.rectangles({5, 2}), (Rectangles{{5, 9, 1, 2, 6}}));
}

TEST(Shard, OneRankHoldsOneRectangle) {
  const ShardRule rows{0, {{.pieces = 6}, {.pieces = 2, .users = 3}, {.pieces = 2, .users = 3}}};
  const ShardRule columns{1, {{.pieces = 4}}};
  for (const Shard& shard : {Shard(Shape{10, 4}, rows), Shard(Shape{10, 4}, columns), Shard(Shape{10, 4}, {})}) {
    EXPECT_EQ(shard.rectangles(everything(shard)), (Rectangles{{0, 0, 1, 40, 40}}));
    EXPECT_EQ(shard.rectangles({3, 30}), (Rectangles{{3, 3, 1, 30, 30}}));
    EXPECT_TRUE(shard.rectangles({3, 0}).empty());
    EXPECT_TRUE(shard.partial(true).empty());
  }
}

// Six query heads of two KV heads on three ranks: the middle rank needs both KV heads and counts the second.
TEST(Shard, PiecesThatSeveralRanksHoldHaveOneOwner) {
  const ShardRule rule{0, {{.pieces = 2, .size = 5, .users = 3}}};
  const std::vector<int> owned{5, 5, 0};
  for (int rank = 0; rank < 3; ++rank) {
    const Shard shard(Shape{10}, rule, {rank, 3});
    EXPECT_EQ(shard.shape(), Shape{rank == 1 ? 10 : 5});
    std::int64_t mine = 0;
    for (const Rectangle& rectangle : shard.rectangles(everything(shard))) mine += rectangle.owned ? rectangle.columns : 0;
    EXPECT_EQ(mine, owned[static_cast<std::size_t>(rank)]);
  }
  const Shard middle(Shape{10}, rule, {1, 3});
  EXPECT_EQ(middle.rectangles({1, 9}), (Rectangles{{1, 1, 1, 4, 4, false}, {5, 5, 1, 5, 5, true}}));
  const std::vector<SharedRange> shared = middle.partial(false);
  ASSERT_EQ(shared.size(), 2U);
  EXPECT_EQ(shared[0].elements, (Range{0, 5}));
  EXPECT_EQ(shared[0].ranks, (std::vector{0, 1}));
  EXPECT_EQ(shared[1].elements, (Range{5, 5}));
  EXPECT_EQ(shared[1].ranks, (std::vector{1, 2}));
}

TEST(Shard, NeighboursOfTheSameRanksAreOneRange) {
  const ShardRule rule{0, {{.pieces = 4, .users = 2}, {.pieces = 2, .size = 3, .users = 4}}};
  // Eight users on two ranks: nothing is shared. On four: the second group's pieces are, each by two ranks.
  EXPECT_TRUE(Shard(Shape{10, 2}, rule, {1, 2}).partial(false).empty());
  const std::vector<SharedRange> shared = Shard(Shape{10, 2}, rule, {2, 4}).partial(false);
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_EQ(shared[0].elements, (Range{2, 6}));
  EXPECT_EQ(shared[0].ranks, (std::vector{2, 3}));
  // On eight both groups' are, and the two lie side by side with the same ranks.
  const std::vector<SharedRange> all =
      Shard(Shape{6, 2}, {0, {{.pieces = 3, .users = 2}, {.pieces = 3, .users = 2}}}, {1, 6}).partial(false);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].elements, (Range{0, 4}));
  EXPECT_EQ(all[0].ranks, (std::vector{0, 1}));
}

TEST(Shard, WhatIsWholeEverywhereIsPartialOnlyWhereTokensAreDivided) {
  const Shard shard(Shape{7}, {}, {2, 3});
  EXPECT_EQ(shard.shape(), Shape{7});
  EXPECT_EQ(shard.rectangles({2, 4}), (Rectangles{{2, 2, 1, 4, 4, false}}));
  EXPECT_EQ(Shard(Shape{7}, {}, {0, 3}).rectangles({2, 4}), (Rectangles{{2, 2, 1, 4, 4, true}}));
  EXPECT_TRUE(shard.partial(false).empty());
  const std::vector<SharedRange> shared = shard.partial(true);
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_EQ(shared[0].elements, (Range{0, 7}));
  EXPECT_EQ(shared[0].ranks, (std::vector{0, 1, 2}));
}

TEST(Shard, RulesThatContradictTheTensorAreRefused) {
  EXPECT_THROW(Shard(Shape{10, 4}, {0, {{.pieces = 9}}}), BrokenRule);
  EXPECT_THROW(Shard(Shape{10}, {1, {{.pieces = 10}}}), BrokenRule);
  EXPECT_THROW(Shard(Shape{10, 4}, {1, {{.pieces = 2, .users = 2}, {.pieces = 2, .users = 2}}}), BrokenRule);
  EXPECT_THROW(Shard(Shape{10, 4}, {}, {2, 2}), BrokenRule);
  EXPECT_THROW(Shard(Shape{10, 4}, {}).rectangles({39, 2}), BrokenRule);
}

}  // namespace
}  // namespace lockstep::layout
