#include "device/topology.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace lockstep {
namespace {

TEST(Topology, EveryCoreIsNamedOnce) {
  const std::vector<int> cores = neighbouring_cores();
  EXPECT_FALSE(cores.empty());
  EXPECT_EQ(std::set<int>(cores.begin(), cores.end()).size(), cores.size());
}

TEST(Topology, SharesAreDisjointEvenAndComplete) {
  std::vector<int> cores(11);
  std::iota(cores.begin(), cores.end(), 5);
  for (int ranks = 1; ranks <= 11; ++ranks) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> share = share_of_cores(cores, rank, ranks);
      EXPECT_GE(std::ssize(share), 11 / ranks);
      EXPECT_LE(std::ssize(share), 11 / ranks + 1);
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_EQ(all, cores) << ranks;
  }
}

TEST(Topology, MoreRanksThanCoresShareThemAll) {
  const std::vector<int> cores{2, 4};
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(share_of_cores(cores, rank, 3), cores);
}

TEST(Topology, AScopeKeepsTheThreadOnItsCores) {
  const std::vector<int> before = neighbouring_cores();
  {
    const ScopedCores scoped({before.back()});
    EXPECT_EQ(neighbouring_cores(), std::vector<int>{before.back()});
  }
  EXPECT_EQ(neighbouring_cores(), before);
}

}  // namespace
}  // namespace lockstep
