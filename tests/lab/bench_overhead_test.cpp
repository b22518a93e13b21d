#include "lab/step/bench_overhead.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"

namespace lockstep::lab {
namespace {

constexpr StepShape two_samples{"small", 1, 2, 16, 65, 2, 8};

OverheadReport overhead_of(OverheadOptions options, comm::Communicator& world) {
  support::Machine machine(1);
  world.attach(*machine.stream, machine.runtime->team());
  options.observed_ops = [&](ops::OpObserver& observer) {
    return ops::make_ops(*machine.runtime, *machine.stream, {.observer = &observer});
  };
  return bench_overhead(two_samples, options, *machine.runtime, *machine.ops, world);
}

TEST(BenchOverhead, TimesAStepOfEachKindARound) {
  const TempFolder folder;
  for (const int ranks : {1, 2}) {
    comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
      const OverheadReport report = overhead_of({.rounds = 3, .folder = folder.path(), .observed_ops = {}}, world);
      EXPECT_EQ(report.ranks, ranks);
      EXPECT_GT(report.spans, 20);
      for (const std::vector<double>& seconds : report.seconds) {
        ASSERT_EQ(seconds.size(), 3U);
        for (const double each : seconds) EXPECT_GT(each, 0);
      }
    });
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchOverhead, CountsOverTheSameRoundsStep) {
  const OverheadReport report{
      .shape = two_samples, .ranks = 1, .seconds = {{{0.1, 0.2, 0.4}, {0.101, 0.206, 0.404}, {0.11, 0.2, 0.5}}}, .spans = 1234};
  EXPECT_NEAR(report.overhead(1).lower, 0.01, 1e-12);
  EXPECT_NEAR(report.overhead(1).median, 0.01, 1e-12);
  EXPECT_NEAR(report.overhead(1).upper, 0.02, 1e-12);
  EXPECT_NEAR(report.overhead(2).median, 0.1, 1e-12);
  const std::string text = answer_of(report).text();
  for (const char* part : {"small, 1 rank, 3 rounds", "1,234 spans", "200.000 ms", "+1.00 %  +1.00 to +2.00 %"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const Answer json = answer_of(report);
  EXPECT_NEAR(json.at("kinds").array()[1].at("overhead").at("median").number(), 0.01, 1e-12);
  EXPECT_EQ(json.at("kinds").array()[0].find("overhead"), nullptr);
}

TEST(BenchOverhead, QuartilesAreMediansOfTheHalves) {
  const Quartiles one = quartiles_of({7});
  EXPECT_EQ(one.lower, 7);
  EXPECT_EQ(one.upper, 7);
  const Quartiles four = quartiles_of({4, 1, 3, 2});
  EXPECT_EQ(four.lower, 1.5);
  EXPECT_EQ(four.median, 2.5);
  EXPECT_EQ(four.upper, 3.5);
}

TEST(BenchOverhead, RefusesSamplesThatDoNotDivideByTheRanks) {
  const auto divide = [](comm::Communicator& world) {
    (void)overhead_of({.rounds = 1, .folder = ".", .observed_ops = {}}, world);
  };
  EXPECT_THROW(comm::run_ranks(3, {.timeout = 60}, divide), UserError);
}

}  // namespace
}  // namespace lockstep::lab
