#include "layout/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lockstep::layout {
namespace {

using Members = std::vector<int>;

const Mesh mesh({.dp = 2, .tp = 2, .cp = 2, .pp = 2, .ranks_per_host = 4});

TEST(Mesh, RanksAndCoordinatesAreEachOthersInverse) {
  for (int rank = 0; rank < mesh.ranks(); ++rank) EXPECT_EQ(mesh.rank(mesh.coordinates(rank)), rank);
  EXPECT_EQ(mesh.coordinates(11), (Coordinates{.dp = 0, .tp = 1, .cp = 1, .pp = 1}));
  EXPECT_THROW(mesh.coordinates(16), BrokenRule);
  EXPECT_THROW(mesh.rank({.dp = 2}), BrokenRule);
}

TEST(Mesh, AGroupHasTheRanksThatDifferAlongItsAxes) {
  EXPECT_EQ(mesh.members(GroupRole::tensor, 5), (Members{4, 5}));
  EXPECT_EQ(mesh.members(GroupRole::context, 5), (Members{5, 7}));
  EXPECT_EQ(mesh.members(GroupRole::data, 5), (Members{1, 5}));
  EXPECT_EQ(mesh.members(GroupRole::pipeline, 5), (Members{5, 13}));
  EXPECT_EQ(mesh.members(GroupRole::replicas, 5), (Members{1, 3, 5, 7}));
  EXPECT_EQ(mesh.members(GroupRole::model, 5), (Members{4, 5, 12, 13}));
  EXPECT_EQ(mesh.members(GroupRole::host, 5), (Members{5, 7}));
  EXPECT_EQ(mesh.members(GroupRole::hosts, 5), (Members{1, 5}));
  EXPECT_EQ(mesh.members(GroupRole::all, 5).size(), 16U);
}

TEST(Mesh, GroupsOfARoleTileTheRanks) {
  for (int role = 0; role < static_cast<int>(GroupRole::count); ++role) {
    std::set<int> colours;
    std::size_t counted = 0;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Members members = mesh.members(static_cast<GroupRole>(role), rank);
      EXPECT_TRUE(std::ranges::find(members, rank) != members.end());
      if (colours.insert(mesh.colour(static_cast<GroupRole>(role), rank)).second) counted += members.size();
    }
    EXPECT_EQ(counted, static_cast<std::size_t>(mesh.ranks())) << name_of(static_cast<GroupRole>(role));
  }
}

TEST(Mesh, TensorParallelRanksAreNeighboursOnOneHost) {
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    for (const int other : mesh.members(GroupRole::tensor, rank)) EXPECT_EQ(mesh.host(other), mesh.host(rank));
  }
  EXPECT_EQ(mesh.host(15), 3);
}

}  // namespace
}  // namespace lockstep::layout
