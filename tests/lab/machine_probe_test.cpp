#include "lab/machine_probe.h"

#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "support/temp_folder.h"

namespace lockstep::lab {
namespace {

ProbeOptions brief(const io::Path& folder) {
  return {.folder = folder, .steps = 1, .small_sum = 64, .large_sum = 4096, .trials = 1, .disk_bytes = 1 << 20};
}

/// What a probe finds on ranks in groups of `each`, as if each group were on a host of its own.
planner::Machine probed(int ranks, int each) {
  const TempFolder folder;
  std::mutex mutex;
  std::optional<planner::Machine> all;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    const auto runtime = open_runtime({}, {.threads = 1});
    const auto node = world.split(world.rank() / each, world.rank());
    const planner::Machine mine = probe_machine(brief(folder.path()), *runtime, world, *node);
    const std::lock_guard lock(mutex);
    if (!all) all = mine;
    EXPECT_EQ(mine.peak_flops, all->peak_flops) << "the same on all ranks";
    EXPECT_EQ(mine.disk_rate, all->disk_rate);
  });
  return all.value();
}

TEST(MachineProbe, MeasuresAMachineThatThePlannerTakes) {
  const planner::Machine machine = probed(2, 2);
  EXPECT_TRUE(check(machine).empty());
  EXPECT_EQ(machine.nodes, 1);
  EXPECT_EQ(machine.devices, 2);
  EXPECT_GT(machine.f32_share, 0);
  EXPECT_GE(machine.product_depth, 0);
  EXPECT_GT(machine.attention_share, 0);
  EXPECT_GT(machine.update_rate, 0);
  EXPECT_GT(machine.inside_latency, 0);
  EXPECT_GT(machine.disk_rate, 0);
  EXPECT_EQ(machine.between_rate, 0) << "there is one host";
}

TEST(MachineProbe, RanksOfSeveralHostsHaveANetworkBetweenThem) {
  const planner::Machine machine = probed(2, 1);
  EXPECT_TRUE(check(machine).empty());
  EXPECT_EQ(machine.nodes, 2);
  EXPECT_EQ(machine.devices, 1);
  EXPECT_GT(machine.between_rate, 0);
  EXPECT_EQ(machine.inside_rate, 0) << "a rank alone on its host has no neighbours";
}

TEST(MachineProbe, ADiskThatCannotBeWrittenIsRefused) {
  const auto world = comm::make_self(), node = comm::make_self();
  const auto runtime = open_runtime({}, {.threads = 1});
  EXPECT_THROW(probe_machine(brief("/no/such/folder"), *runtime, *world, *node), UserError);
}

}  // namespace
}  // namespace lockstep::lab
