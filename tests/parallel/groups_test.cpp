#include "parallel/groups.h"

#include <gtest/gtest.h>

#include "comm/thread/thread_world.h"

namespace lockstep::parallel {
namespace {

using layout::GroupRole;

// What a group's ranks add up to tells who they are.
std::int64_t sum_of_ranks(comm::Communicator& group, int rank) {
  std::int64_t sum = 1LL << (4 * rank);
  group.all_reduce(view(std::span(&sum, 1), Shape{1}), comm::Reduction::sum).wait();
  return sum;
}

TEST(Groups, HaveTheRanksThatTheMeshSays) {
  const layout::Placement on_host{layout::CutOver::host, layout::Tier::device};
  const layout::Mesh mesh({.dp = 2, .tp = 2, .pp = 2, .optimizer = on_host, .ranks_per_host = 4});
  comm::run_ranks(8, {.timeout = 60}, [&](comm::Communicator& world) {
    const Groups groups(world, mesh);
    EXPECT_EQ(groups.at(), mesh.coordinates(world.rank()));
    for (int role = 0; role < static_cast<int>(GroupRole::count); ++role) {
      const std::vector<int> members = mesh.members(static_cast<GroupRole>(role), world.rank());
      comm::Communicator& group = groups.of(static_cast<GroupRole>(role));
      ASSERT_EQ(group.size(), static_cast<int>(members.size()));
      EXPECT_EQ(members[static_cast<std::size_t>(group.rank())], world.rank());
      std::int64_t expected = 0;
      for (const int rank : members) expected += 1LL << (4 * rank);
      EXPECT_EQ(sum_of_ranks(group, world.rank()), expected);
    }
  });
}

TEST(Groups, OfDataParallelRanksAreTheWorldItself) {
  comm::run_ranks(2, {.timeout = 60}, [](comm::Communicator& world) {
    const Groups groups(world, layout::Mesh({.dp = 2, .ranks_per_host = 2}));
    EXPECT_EQ(&groups.data(), &world);
    EXPECT_EQ(&groups.replicas(), &world);
    EXPECT_EQ(groups.of(GroupRole::tensor).size(), 1);
    EXPECT_EQ(groups.lead(), world.rank() == 0);
    EXPECT_THROW(groups.of(GroupRole::host), BrokenRule);
  });
}

TEST(Groups, NeedAWorldOfTheMeshsRanks) {
  const std::unique_ptr<comm::Communicator> alone = comm::make_self();
  EXPECT_THROW(Groups(*alone, layout::Mesh({.dp = 2})), BrokenRule);
}

}  // namespace
}  // namespace lockstep::parallel
