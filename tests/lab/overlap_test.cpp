#include "lab/overlap/overlap.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "support/tiny_engine.h"

namespace lockstep::lab {
namespace {

constexpr StepShape small{"small", 2, 2, 16, 65, 2, 8};

OverlapReport report_of(int ranks, const OverlapOptions& options) {
  OverlapReport report;
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    const OverlapReport own = bench_overlap(small, options, *machine.runtime, *machine.ops, world);
    if (world.rank() == 0) report = own;
  });
  return report;
}

TEST(BenchOverlap, MeasuresBothKindsOfSteps) {
  const OverlapReport report = report_of(2, {.rounds = 1, .bucket_bytes = 4096});
  EXPECT_EQ(report.ranks, 2);
  EXPECT_EQ(report.gradient_bytes, 4 * (65 * 16 + 8 * 16 + 2 * (12 * 16 * 16 + 13 * 16) + 2 * 16));
  EXPECT_GT(report.communication, 0);
  EXPECT_GT(report.cover, 0);
  EXPECT_GT(report.exposed, 0);
  EXPECT_GT(report.step, report.exposed);
  EXPECT_GT(report.waiting_step, report.communication);
}

TEST(BenchOverlap, NoMoreCanBeHiddenThanThereIsToHideBehind) {
  OverlapReport report{.shape = small, .ranks = 2, .communication = 0.3, .cover = 0.2, .exposed = 0.14};
  EXPECT_DOUBLE_EQ(*report.hidden_share(), 0.8);
  report.cover = 0.4;
  EXPECT_NEAR(*report.hidden_share(), 0.5333, 1e-4);
  EXPECT_NE(answer_of(report).text().find("hidden         160.0 ms  53 % of min(communication, backward) = 300.0 ms"),
            std::string::npos)
      << answer_of(report).text();
  EXPECT_NEAR(answer_of(report).at("hidden_share").number(), 0.5333, 1e-4);
}

TEST(BenchOverlap, WhatIsHiddenLiesBetweenNothingAndAll) {
  OverlapReport report{.shape = small, .ranks = 2, .communication = 0.0001, .cover = 0.2, .exposed = 0.012, .noise = 0.0005};
  EXPECT_EQ(report.hidden(), 0);
  EXPECT_FALSE(report.hidden_share());
  EXPECT_NE(answer_of(report).text().find("hidden           0.0 ms  of min(communication, backward) = 0.1 ms, which is noise"),
            std::string::npos)
      << answer_of(report).text();
  EXPECT_TRUE(answer_of(report).at("hidden_share").is_null());
  report = {.shape = small, .ranks = 2, .communication = 0.3, .cover = 0.2, .exposed = 0.05};
  EXPECT_DOUBLE_EQ(*report.hidden_share(), 1);
  EXPECT_EQ(answer_of(report).text().find("--rounds"), std::string::npos) << answer_of(report).text();
  report = {.shape = small, .ranks = 2, .communication = 0.3, .cover = 0.2, .exposed = 0.31, .noise = 0.02};
  EXPECT_DOUBLE_EQ(*report.hidden_share(), 0);
  EXPECT_NE(answer_of(report).text().find("noise           20.0 ms"), std::string::npos) << answer_of(report).text();
  report = {.shape = small, .ranks = 2};
  EXPECT_FALSE(report.hidden_share()) << "there is nothing";
}

TEST(BenchOverlap, TheClaimStandsBesideWhatIsMeasured) {
  OverlapReport report{
      .shape = small, .ranks = 2, .communication = 0.1, .cover = 0.2, .exposed = 0.025, .step = 0.5, .waiting_step = 0.56};
  Answer answer = answer_of(report);
  EXPECT_NE(answer.text().find("here: 100.0 ms of communication <= 200.0 ms of backward, so all of it could hide, and 75 % do\n"),
            std::string::npos)
      << answer.text();
  EXPECT_NE(answer.text().find("saved           60.0 ms"), std::string::npos) << answer.text();
  EXPECT_TRUE(answer.at("keeps_up").boolean());
  EXPECT_NEAR(answer.at("saved_s").number(), 0.06, 1e-9);
  report.communication = 0.3;
  answer = answer_of(report);
  EXPECT_NE(
      answer.text().find("300.0 ms of communication > 200.0 ms of backward, so at least 100.0 ms of each step wait for it\n"),
      std::string::npos)
      << answer.text();
  EXPECT_FALSE(answer.at("keeps_up").boolean());
  report.communication = report.exposed = 1e-5;
  report.noise = 1e-3;
  EXPECT_NE(answer_of(report).text().find("so there is nothing to hide\n"), std::string::npos);
}

TEST(BenchOverlap, RefusesWhatCannotBeMeasured) {
  support::Machine machine(1);
  try {
    bench_overlap(small, {}, *machine.runtime, *machine.ops, *machine.world);
    FAIL() << "it was not refused";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("one rank exchanges no gradients"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep::lab
