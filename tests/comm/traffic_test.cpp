// The account that a rank keeps of what it sends.

#include <gtest/gtest.h>

#include "support/ranks.h"

namespace lockstep::test {
namespace {

using comm::Collective;
using comm::Communicator;
using comm::Purpose;

TEST(Traffic, CountsWhatARingSendsByKindAndPurpose) {
  on_ranks(3, [](Communicator& world) {
    const bool first = world.rank() == 0;
    std::vector<float> x(99, 1), part(33), all(99);
    const std::vector<std::int64_t> counts{33, 33, 33};
    world.moving(Purpose::gradients).all_reduce(tensor_of(x), comm::Reduction::sum).wait();
    world.moving(Purpose::gradients).reduce_scatter(tensor_of(part), tensor_of(x), counts, comm::Reduction::sum).wait();
    world.moving(Purpose::weights).all_gather(tensor_of(all), tensor_of(part), counts).wait();
    world.moving(Purpose::keys).all_to_all(tensor_of(all), tensor_of(x)).wait();
    world.broadcast(tensor_of(x), 0).wait();
    world.reduce(tensor_of(x), comm::Reduction::sum, 0).wait();
    world.gather(tensor_of(all), tensor_of(part), 0).wait();
    world.scatter(tensor_of(part), tensor_of(all), 0).wait();
    comm::Request sent = world.moving(Purpose::activations).send(tensor_of(x), (world.rank() + 1) % 3);
    world.moving(Purpose::activations).receive(tensor_of(all), (world.rank() + 2) % 3).wait();
    sent.wait();
    world.barrier();
    const auto bytes = [&](Purpose purpose, Collective kind) { return world.traffic().at(purpose, kind).sent; };
    EXPECT_EQ(bytes(Purpose::gradients, Collective::all_reduce), 2 * 4 * 66);
    EXPECT_EQ(bytes(Purpose::gradients, Collective::reduce_scatter), 4 * 66);
    EXPECT_EQ(bytes(Purpose::weights, Collective::all_gather), 4 * 66);
    EXPECT_EQ(bytes(Purpose::keys, Collective::all_to_all), 4 * 66);
    EXPECT_EQ(bytes(Purpose::other, Collective::broadcast), first ? 4 * 99 : 0);
    EXPECT_EQ(bytes(Purpose::other, Collective::reduce), first ? 0 : 4 * 99);
    EXPECT_EQ(bytes(Purpose::other, Collective::gather), first ? 0 : 4 * 33);
    EXPECT_EQ(bytes(Purpose::other, Collective::scatter), first ? 4 * 66 : 0);
    EXPECT_EQ(bytes(Purpose::activations, Collective::send), 4 * 99);
    EXPECT_EQ(bytes(Purpose::activations, Collective::receive), 0);
    EXPECT_EQ(world.traffic().of(Purpose::gradients).sent, 3 * 4 * 66);
    const comm::Traffic before = world.traffic();
    EXPECT_EQ((world.traffic() - before).total().sent, 0);
  });
}

// 2 S (n - 1) of all ranks together, also where that does not divide by n.
TEST(Traffic, SharesOfAReductionAddUp) {
  for (const int size : {2, 3, 7}) {
    for (const std::int64_t count : {1, 5, 64}) {
      std::vector<float> x(static_cast<std::size_t>(count));
      std::int64_t all = 0;
      for (int rank = 0; rank < size; ++rank)
        all += comm::sent_bytes({.kind = Collective::all_reduce, .in = tensor_of(x), .out = tensor_of(x)}, rank, size);
      EXPECT_EQ(all, 2 * 4 * count * (size - 1));
    }
  }
}

TEST(Traffic, WhatGoesOnBesideTheRanksWorkIsHidden) {
  on_ranks(2, [](Communicator& world) {
    std::vector<float> x(100, 1);
    comm::Request request = world.moving(Purpose::gradients).all_reduce(tensor_of(x), comm::Reduction::sum);
    const double begun = now_seconds();
    while (now_seconds() < begun + 0.01) continue;
    request.wait();
    const comm::Exchanged& all = world.traffic().at(Purpose::gradients, Collective::all_reduce);
    EXPECT_GE(all.hidden, 0.009);
    EXPECT_LE(all.hidden + all.waited, now_seconds() - begun + 0.001);
    while (world.traffic().at(Purpose::other, Collective::barrier).waited == 0) world.barrier();
    EXPECT_EQ(world.traffic().at(Purpose::other, Collective::barrier).sent, 0);
  });
}

}  // namespace
}  // namespace lockstep::test
