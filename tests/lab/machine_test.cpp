#include "lab/machine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "comm/thread/thread_world.h"
#include "device/memory.h"
#include "device/team.h"

namespace lockstep::lab {
namespace {

TEST(Machine, PeakIsWhatAProcessorCanDo) {
  Team team(2);
  const double peak = fma_peak(team);
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e13);
}

TEST(Machine, RateIsOfTheWholeTeam) {
  Team one(1), two(2);
  for (Team* team : {&one, &two}) {
    const double rate = fma_rate(*team, 0.001);
    EXPECT_GT(rate, 1e8);
    EXPECT_LT(rate, 1e13);
  }
}

TEST(Machine, BandwidthIsWhatMemoryCanDo) {
  Team team(1);
  for (const double bandwidth : {update_bandwidth(team, host_memory()), read_bandwidth(team, host_memory(), 1000000),
                                 read_bandwidth(team, host_memory(), 1)}) {
    EXPECT_GT(bandwidth, 1e7);
    EXPECT_LT(bandwidth, 1e13);
  }
}

TEST(Machine, TriadAndUpdateHaveTheRateOfAllRanksTogether) {
  comm::run_ranks(2, {.timeout = 60}, [](comm::Communicator& world) {
    Team team(1);
    for (double bandwidth : {triad_bandwidth(team, host_memory(), world), update_bandwidth(team, host_memory(), world)}) {
      EXPECT_GT(bandwidth, 1e7);
      EXPECT_LT(bandwidth, 1e13);
      const double mine = bandwidth;
      world.broadcast(view(std::span(&bandwidth, 1), Shape{1}), 0).wait();
      EXPECT_EQ(bandwidth, mine);
    }
  });
}

}  // namespace
}  // namespace lockstep::lab
