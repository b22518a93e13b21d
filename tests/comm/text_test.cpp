#include "comm/text.h"

#include <gtest/gtest.h>

#include "support/ranks.h"

namespace lockstep::test {
namespace {

const std::vector<std::string> texts{"", "one", std::string(3000, 'x'), "\xC3\xA4 and a zero: " + std::string(1, '\0')};

TEST(Texts, RankZerosReachesAll) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    on_ranks(ranks, [](comm::Communicator& world) {
      for (const std::string& text : texts) {
        EXPECT_EQ(comm::lead_text(world, world.rank() == 0 ? text : "another, of rank " + std::to_string(world.rank())), text);
      }
    });
  }
}

TEST(Texts, EveryRanksReachesAll) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    on_ranks(ranks, [ranks](comm::Communicator& world) {
      const std::vector<std::string> all = comm::all_texts(world, texts[static_cast<std::size_t>(world.rank())]);
      EXPECT_EQ(all, std::vector<std::string>(texts.begin(), texts.begin() + ranks));
    });
  }
}

TEST(Texts, GoFromRankToRank) {
  on_ranks(3, [](comm::Communicator& world) {
    for (const std::string& text : texts) {
      if (world.rank() == 2) comm::send_text(world, text, 0);
      if (world.rank() == 0) {
        EXPECT_EQ(comm::receive_text(world, 2), text);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::test
