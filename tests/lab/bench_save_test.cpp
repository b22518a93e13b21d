#include "lab/saving/bench_save.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace lockstep::lab {
namespace {

constexpr StepShape small{"small", 2, 2, 16, 65, 2, 8};

TEST(BenchSave, MeasuresBothKindsAndLeavesNothing) {
  const TempFolder folder;
  SaveBenchReport report;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    const SaveBenchReport own =
        bench_save(small, {.folder = folder.path(), .rounds = 2, .zero = 2}, *machine.runtime, *machine.ops, world);
    if (world.rank() == 0) report = own;
  });
  EXPECT_EQ(report.ranks, 2);
  EXPECT_GT(report.bytes, 12U * (65 * 16 + 8 * 16 + 2 * 12 * 16 * 16));
  for (const double seconds : {report.save, report.raw, report.beside, report.step, report.step_beside}) EXPECT_GT(seconds, 0);
  EXPECT_GT(report.waited, 0);
  EXPECT_LE(report.waited, report.beside);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchSave, SaysRatesAndShares) {
  const SaveBenchReport report{.shape = small,
                               .ranks = 4,
                               .bytes = 1'000'000,
                               .save = 0.5,
                               .raw = 0.4,
                               .ratio = 0.8,
                               .beside = 1,
                               .waited = 0.03,
                               .waited_share = 0.03,
                               .step = 0.2,
                               .step_beside = 0.3};
  const std::string text = to_text(report);
  for (const char* part : {"save has 80 % of this rate", "30.0 ms   3.0 % of that", "300.0 ms   1.50 times that"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_EQ(to_json(report).at("raw_ratio").number(), 0.8);
}

TEST(BenchSave, RefusesWhatCannotBeMeasured) {
  support::Machine machine(1);
  try {
    bench_save(small, {.folder = "/none", .rounds = 0, .zero = 7}, *machine.runtime, *machine.ops, *machine.world);
    FAIL() << "it was not refused";
  } catch (const UserError& error) {
    const std::string text = error.what();
    for (const char* part : {"--rounds 0", "--zero 7", "--folder /none: there is no such folder"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

}  // namespace
}  // namespace lockstep::lab
