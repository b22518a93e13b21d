#include "lab/collectives/collective_trial.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/thread/thread_world.h"

namespace lockstep::lab {
namespace {

using comm::Collective;

TEST(CollectiveTrial, EveryOperationPassesOnEveryRoot) {
  for (const int ranks : {1, 2, 3, 4}) {
    comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
      Team team(1);
      for (const Collective op : tried_collectives()) {
        for (int root = 0; root < ranks; ++root) {
          CollectiveTrial trial(op, root, 12L * ranks, world, team, host_memory());
          for (const std::int64_t elements : {12L * ranks, 1L * ranks}) {
            trial.fill(elements);
            EXPECT_EQ(trial.bytes(), op == Collective::barrier ? 0 : 4 * elements);
            trial.run();
            EXPECT_EQ(trial.fault(), std::nullopt);
          }
        }
      }
    });
  }
}

TEST(CollectiveTrial, WhatWasNotRunIsWrongWhereSomethingComes) {
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    Team team(1);
    for (const Collective op : tried_collectives()) {
      CollectiveTrial trial(op, 0, 8, world, team, host_memory());
      trial.fill(8);
      const bool root_only = op == Collective::reduce || op == Collective::gather;
      const bool others_only = op == Collective::broadcast;
      const bool expected = root_only ? world.rank() == 0 : others_only ? world.rank() == 1 : true;
      EXPECT_EQ(trial.fault().has_value(), expected) << name_of(op) << " on rank " << world.rank();
    }
  });
}

// A world whose barrier holds nobody.
class Open final : public comm::Communicator {
 public:
  explicit Open(comm::Communicator& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void attach(Stream&, Team&) override {}
  MemorySource& window(MemorySource& usual) override { return usual; }
  comm::Communicator& host() override { return world_; }

 private:
  comm::Request issue(const comm::Operation&) override { return {}; }
  std::unique_ptr<comm::Communicator> make_group(int, std::vector<int>) override { return comm::make_self(); }
  comm::Communicator& world_;
};

TEST(CollectiveTrial, ABarrierThatHoldsNobodyIsWrong) {
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    Team team(1);
    Open open(world);
    CollectiveTrial trial(Collective::barrier, 0, 2, open, team, host_memory());
    if (world.rank() == 1) world.barrier();
    trial.run();
    if (world.rank() == 0) world.barrier();
    const auto fault = trial.fault();
    EXPECT_EQ(fault.has_value(), world.rank() == 0);
    EXPECT_NE(fault.value_or("barrier: rank 0 left it").find("barrier: rank 0 left it"), std::string::npos);
  });
}

TEST(CollectiveTrial, ShowsWhoHoldsWhat) {
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    Team team(1);
    CollectiveTrial trial(Collective::scatter, 1, 4, world, team, host_memory());
    trial.fill(4);
    EXPECT_EQ(trial.given().size(), world.rank() == 1 ? 4U : 0U);
    trial.run();
    ASSERT_EQ(trial.got().size(), 2U);
    EXPECT_EQ(trial.got()[0], world.rank() == 0 ? 2.0F : 6.0F);
  });
}

TEST(CollectiveTrial, AnUnknownNameNamesTheKnownOnes) {
  EXPECT_EQ(collective_from_name("all_to_all"), Collective::all_to_all);
  try {
    collective_from_name("shuffle");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("all_reduce, reduce, broadcast"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::lab
