#include "lab/collectives/older_benches.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "device/runtime.h"

namespace lockstep::lab {
namespace {

// 4.0 GB in 0.5 s over 4 ranks: 2 x 4 x 8 / 0.5 and 4 x 1.5 x 8 / 0.5.
TEST(LegacyAllReduce, PrintsWhatItsAuthorsProgramDid) {
  const LegacyReport report{.names = {"node1:0", "node1:1", "node2:0", "node2:1"},
                            .bytes = 4'000'000'000,
                            .seconds = {{0.5, 1, 1, 1}, {1, 1, 1, 0.25}}};
  const std::string text = answer_of(report).text();
  EXPECT_TRUE(text.starts_with("node1:0 data size: 4 GB\nnode1:1 data size: 4 GB\n")) << text;
  EXPECT_NE(
      text.find("-----------trial-0----------------\nnode1:0:\n duration: 0.5000 sec\n algo throughput: 128000000000.0000 bps, "
                "128.0000 Gbps\n busbw: 96.0000  Gbps\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("node2:1:\n duration: 0.2500 sec\n"), std::string::npos) << text;
}

TEST(LegacyAllReduce, TimesEveryTrialOnEveryRank) {
  LegacyReport report;
  comm::run_ranks(3, {.timeout = 60}, [&](comm::Communicator& world) {
    const auto runtime = open_runtime({}, {.threads = 1});
    const LegacyReport mine = bench_legacy(100, 2, "here:" + std::to_string(world.rank()), *runtime, world);
    if (world.rank() == 2) report = mine;
  });
  EXPECT_EQ(report.names, (std::vector<std::string>{"here:0", "here:1", "here:2"}));
  EXPECT_EQ(report.bytes, 96);
  ASSERT_EQ(report.seconds.size(), 2U);
  for (const std::vector<double>& trial : report.seconds) {
    ASSERT_EQ(trial.size(), 3U);
    for (const double seconds : trial) EXPECT_GT(seconds, 0);
  }
}

TEST(Flags, AreTimedAsObjectsAndAsTensors) {
  FlagReport report;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    const FlagReport mine = bench_flags(4, world);
    if (world.rank() == 1) report = mine;
  });
  EXPECT_EQ(report.ranks, 2);
  EXPECT_GT(report.objects, 0);
  EXPECT_GT(report.tensors, 0);
  const std::string text = answer_of(FlagReport{.ranks = 8, .calls = 10, .objects = 23e-6, .tensors = 1e-6}).text();
  EXPECT_NE(text.find("objects take 23.0 x the time of a tensor"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::lab
