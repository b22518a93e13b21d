// The account that a rank keeps of its waiting.

#include <gtest/gtest.h>

#include "support/ranks.h"

namespace lockstep::test {
namespace {

using comm::Communicator;

TEST(Waiting, IsCountedForARanksGroupsTogether) {
  on_ranks(4, [](Communicator& world) {
    EXPECT_EQ(world.waited_seconds(), 0);
    world.barrier();
    const double at_barrier = world.waited_seconds();
    EXPECT_GT(at_barrier, 0);

    const auto pair = world.split(world.rank() / 2, world.rank());
    EXPECT_EQ(pair->waited_seconds(), world.waited_seconds());
    std::vector<float> x(100, 1);
    pair->all_reduce(tensor_of(x), comm::Reduction::sum).wait();
    EXPECT_GT(world.waited_seconds(), at_barrier);
    EXPECT_EQ(pair->waited_seconds(), world.waited_seconds());
  });
}

TEST(Waiting, IsCountedByKindOfOperation) {
  on_ranks(2, [](Communicator& world) {
    const auto seconds = [&](comm::Collective kind) { return world.traffic().waited()[static_cast<std::size_t>(kind)]; };
    world.barrier();
    EXPECT_GT(seconds(comm::Collective::barrier), 0);
    EXPECT_EQ(seconds(comm::Collective::all_reduce), 0);
    std::vector<float> x(100, 1);
    world.all_reduce(tensor_of(x), comm::Reduction::sum).wait();
    EXPECT_GT(seconds(comm::Collective::all_reduce), 0);
    EXPECT_EQ(seconds(comm::Collective::barrier) + seconds(comm::Collective::all_reduce), world.waited_seconds());
  });
}

TEST(Waiting, OneRankWaitsForNoOther) {
  const auto alone = comm::make_self();
  std::vector<float> x(100, 1);
  alone->all_reduce(tensor_of(x), comm::Reduction::sum).wait();
  alone->barrier();
  EXPECT_EQ(alone->waited_seconds(), 0);
}

TEST(Waiting, DoesNotCountWhatWasOnlyAskedFor) {
  on_ranks(2, [](Communicator& world) {
    std::vector<float> x(100, 1);
    comm::Request request = world.all_reduce(tensor_of(x), comm::Reduction::sum);
    while (!request.poll()) continue;
    request.wait();
    EXPECT_EQ(world.waited_seconds(), 0);
  });
}

// More than a rank may have under way.
TEST(Waiting, RequestsEndTogether) {
  on_ranks(3, [](Communicator& world) {
    constexpr int count = 70;
    std::vector<std::vector<float>> values(count, {static_cast<float>(world.rank())});
    for (const bool asks : {false, true}) {
      std::vector<comm::Request> requests;
      for (std::vector<float>& x : values) requests.push_back(world.all_reduce(tensor_of(x), comm::Reduction::sum));
      comm::Request all = comm::all_of(std::move(requests));
      while (asks && !all.poll()) continue;
      all.wait();
      EXPECT_TRUE(all.finished());
    }
    for (const std::vector<float>& x : values) EXPECT_EQ(x.front(), 9);
    comm::all_of({}).wait();
  });
}

}  // namespace
}  // namespace lockstep::test
