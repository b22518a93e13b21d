#include "layout/rounds.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::layout {
namespace {

TEST(Rounds, EveryThingHasOneTurnThatCountsAndEveryRankAsManyTurns) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (std::int64_t things = 0; things <= 12; ++things) {
      const Rounds rounds{things, ranks};
      std::vector<int> turns(static_cast<std::size_t>(things));
      for (std::int64_t round = 0; round < rounds.count(); ++round) {
        for (int rank = 0; rank < ranks; ++rank) {
          const Rounds::Turn turn = rounds.turn(round, rank);
          ASSERT_LT(turn.thing, things);
          if (turn.counts) ++turns[static_cast<std::size_t>(turn.thing)];
        }
      }
      EXPECT_EQ(turns, std::vector<int>(turns.size(), 1)) << things << " things on " << ranks << " ranks";
    }
  }
}

TEST(Rounds, OneThatIsNotThereIsRefused) {
  EXPECT_THROW((Rounds{3, 2}.turn(2, 0)), BrokenRule);
  EXPECT_THROW((Rounds{3, 2}.turn(0, 2)), BrokenRule);
}

}  // namespace
}  // namespace lockstep::layout
