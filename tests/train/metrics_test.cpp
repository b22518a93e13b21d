#include <gtest/gtest.h>

#include "train/report/book_lines.h"
#include "train/report/log_lines.h"
#include "train/report/metrics_file.h"

namespace lockstep::train {
namespace {

TEST(Metrics, SeedLine) {
  Metrics m;
  m.step = 10;
  m.loss = 3.15431;
  m.dt = 0.282833;
  m.mfu = 46.288281;
  m.train_loss = 4.125778;
  m.val_loss = 4.128809;
  const std::string line = log_line(m);
  EXPECT_EQ(line.rfind("step=10 loss=3.154310 dt=0.282833 dtf=0.000000 ", 0), 0U) << line;
  EXPECT_NE(line.find(" mfu=46.288281 train_loss=4.125778 val_loss=4.128809"), std::string::npos);
  EXPECT_EQ(to_json(m).find("val_loss"), nullptr);
  EXPECT_EQ(to_json(Losses{.step = 10, .train = 4.5, .validation = 4.25}).dump(),
            R"({"eval":true,"step":10,"train_loss":4.5,"val_loss":4.25})");
}

TEST(Metrics, MfuOfTheSeedRun) {
  RunningMfu mfu(40'846'548'271'104.0, 312e12);
  EXPECT_NEAR(mfu.update(0.282833), 46.288281, 1e-4);
  EXPECT_NEAR(mfu.update(0.306263), 45.934162, 1e-4);
}

TEST(Progress, LinesOfTheBooksLog) {
  EXPECT_EQ(progress_line({.step = 1, .train = 9.5349, .validation = 9.6091}, 1, {7238.4, 0}, false),
            "Ep 1, Step 000000, Train: 9.535, Val: 9.609, Step tok/sec: 7238, Avg tok/sec: 0");
  EXPECT_EQ(progress_line({.step = 766, .train = 0.15, .validation = 6.914}, 15, {12531.6, 12258.5}, false),
            "Ep 15, Step 000765, Train: 0.150, Val: 6.914, Step tok/sec: 12532, Avg tok/sec: 12258");
  EXPECT_EQ(progress_line({.step = 1234568, .train = 1, .validation = 2}, 2, {3, 4}, true),
            "Ep 2, Step 1234567, Train: 1.000, Val: 2.000, Step tok/sec: 3, Global avg tok/sec: 4");
}

TEST(Progress, MemoryInGibWithFourDigits) {
  EXPECT_EQ(memory_lines({.kept = 2691738010, .committed = 28198285000}),
            "\nAllocated memory: 2.5069 GB\nReserved memory: 26.2617 GB\n");
}

TEST(Progress, OneRanksAverageLeavesTheFirstIntervalOut) {
  TokenRates rates(false);
  rates.start(100);
  rates.add(1000);
  const TokenRates::Rates first = rates.mark(110);
  EXPECT_EQ(first.interval, 100);
  EXPECT_EQ(first.average, 0);
  rates.add(2000);
  rates.add(2000);
  const TokenRates::Rates second = rates.mark(120);
  EXPECT_EQ(second.interval, 400);
  EXPECT_EQ(second.average, 400);
  rates.add(1000);
  EXPECT_EQ(rates.mark(130).average, 250);
}

TEST(Progress, SeveralRanksAverageHasAllIntervals) {
  TokenRates rates(true);
  rates.start(0);
  rates.add(1000);
  EXPECT_EQ(rates.mark(10).average, 100);
  rates.add(3000);
  EXPECT_EQ(rates.mark(20).average, 200);
}

TEST(Progress, AnIntervalWithoutTimeHasNoRate) {
  TokenRates rates(true);
  rates.start(5);
  rates.add(1000);
  EXPECT_EQ(rates.mark(5).interval, 0);
}

}  // namespace
}  // namespace lockstep::train
