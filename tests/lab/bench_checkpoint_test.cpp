#include "lab/saving/bench_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace lockstep::lab {
namespace {

constexpr StepShape small{"small", 2, 2, 16, 65, 2, 8};

TEST(BenchCheckpoint, MeasuresBothKindsAndLeavesNothing) {
  const TempFolder folder;
  CheckpointReport report;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    const CheckpointReport own =
        bench_checkpoint(small, {.folder = folder.path(), .rounds = 2, .zero = 2}, *machine.runtime, *machine.ops, world);
    if (world.rank() == 0) report = own;
  });
  EXPECT_EQ(report.ranks, 2);
  EXPECT_GT(report.bytes, 12U * (65 * 16 + 8 * 16 + 2 * 12 * 16 * 16));
  for (const double seconds :
       {report.save, report.raw, report.load, report.raw_read, report.beside, report.step, report.step_beside})
    EXPECT_GT(seconds, 0);
  EXPECT_GT(report.waited, 0);
  EXPECT_LE(report.waited, report.beside);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchCheckpoint, SaysRatesAndShares) {
  const CheckpointReport report{.shape = small,
                                .ranks = 4,
                                .bytes = 1'000'000,
                                .save = 0.5,
                                .raw = 0.4,
                                .ratio = 0.8,
                                .load = 0.25,
                                .raw_read = 0.2,
                                .load_ratio = 0.8,
                                .beside = 1,
                                .waited = 0.03,
                                .waited_share = 0.03,
                                .step = 0.2,
                                .step_beside = 0.3};
  const std::string text = answer_of(report).text();
  for (const char* part : {"save             500.0  0.002    80 %  until", "load             250.0  0.004    80 %  into",
                           "30.0                 3.0 % of a save beside", "300.0                 1.50 times that"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_EQ(answer_of(report).at("raw_ratio").number(), 0.8);
  EXPECT_EQ(answer_of(report).at("load_s").number(), 0.25);
}

TEST(BenchCheckpoint, RefusesSamplesThatDoNotDivideByTheRanks) {
  EXPECT_THROW(comm::run_ranks(3, {.timeout = 60},
                               [](comm::Communicator& world) {
                                 support::Machine machine(1);
                                 (void)bench_checkpoint(small, {}, *machine.runtime, *machine.ops, world);
                               }),
               UserError);
}

}  // namespace
}  // namespace lockstep::lab
