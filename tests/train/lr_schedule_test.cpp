#include "train/lr_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"

namespace lockstep::train {
namespace {

TEST(LrSchedule, WordplayStartsAtZeroAndHardlyDecaysInTheSeedRun) {
  const LrSchedule lr;
  EXPECT_EQ(lr(0), 0);
  EXPECT_DOUBLE_EQ(lr(50), 3e-4);
  EXPECT_DOUBLE_EQ(lr(100), 6e-4);
  EXPECT_NEAR(lr(340) / 6e-4, 1 - 4e-7, 1e-6);
  EXPECT_EQ(lr(600001), 6e-5);
}

TEST(LrSchedule, NanogptCountsFromOne) {
  LrSchedule lr{.kind = LrSchedule::Kind::nanogpt, .decay_iters = 1000};
  EXPECT_DOUBLE_EQ(lr(0), 6e-4 / 101);
  EXPECT_DOUBLE_EQ(lr(100), 6e-4);
  EXPECT_NEAR(lr(550), (6e-4 + 6e-5) / 2, 1e-9);
  EXPECT_EQ(lr(1000), 6e-5);
}

TEST(LrSchedule, OthersEndAtTheRunsEnd) {
  for (const auto kind : {LrSchedule::Kind::cosine, LrSchedule::Kind::linear, LrSchedule::Kind::wsd}) {
    const LrSchedule lr{.kind = kind};
    EXPECT_DOUBLE_EQ(lr(100), 6e-4);
    EXPECT_DOUBLE_EQ(lr(1000), 6e-5);
    EXPECT_GT(lr(700) + lr(899), lr(950) + lr(990));
  }
  EXPECT_DOUBLE_EQ((LrSchedule{.kind = LrSchedule::Kind::wsd})(900), 6e-4);
  EXPECT_EQ((LrSchedule{.decay = false})(0), 6e-4);
}

// Each schedule as the page on settings tells it, from nothing but its settings.
double told(const LrSchedule& s, std::int64_t it) {
  if (!s.decay) return s.learning_rate;
  const auto at = static_cast<double>(it), warmup = static_cast<double>(s.warmup);
  using Kind = LrSchedule::Kind;
  if (it < s.warmup) return s.learning_rate * (s.kind == Kind::wordplay ? at / warmup : (at + 1) / (warmup + 1));
  const auto between = [&](double first, double end, bool curved) {
    if (at >= end) return s.min_lr;
    const double way = at <= first ? 0 : (at - first) / (end - first);
    return s.min_lr + (s.learning_rate - s.min_lr) * (curved ? (1 + std::cos(std::numbers::pi * way)) / 2 : 1 - way);
  };
  const auto end = static_cast<double>(s.max_iters);
  if (s.kind == Kind::cosine || s.kind == Kind::linear) return between(warmup, end, s.kind == Kind::cosine);
  if (s.kind != Kind::wsd) return between(warmup, static_cast<double>(s.decay_iters), true);
  const double first = std::max(warmup, end - std::floor(s.wsd_decay * end));
  return first < end ? between(first, end, false) : s.learning_rate;
}

// Every iteration of short runs and behind their end, for every setting at its edges.
TEST(LrSchedule, EveryEdgeFollowsTheClosedForm) {
  using Kind = LrSchedule::Kind;
  for (const Kind kind : {Kind::wordplay, Kind::nanogpt, Kind::cosine, Kind::linear, Kind::wsd}) {
    for (const std::int64_t run : {0, 1, 2, 9, 10, 20}) {
      for (const std::int64_t warmup : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4}, run - 1, run, run + 5}) {
        for (const std::int64_t end : {std::int64_t{1}, warmup, run - 1, run, run + 7, std::int64_t{600000}}) {
          for (const double share : {0.0, 0.04, 0.05, 0.1, 0.5, 1.0}) {
            for (const bool decay : {true, false}) {
              if (warmup < 0 || end < 1) continue;
              const LrSchedule lr{
                  .kind = kind, .decay = decay, .warmup = warmup, .decay_iters = end, .max_iters = run, .wsd_decay = share};
              for (std::int64_t it = 0; it <= 2 * run + 8; ++it)
                ASSERT_NEAR(lr(it), told(lr, it), 1e-15) << static_cast<int>(kind) << " run " << run << " warm-up " << warmup
                                                         << " end " << end << " share " << share << " at " << it;
            }
          }
        }
      }
    }
  }
}

TEST(LrSchedule, ADecayWithoutAWholeIterationNeverDecays) {
  LrSchedule lr{.kind = LrSchedule::Kind::wsd, .warmup = 0, .max_iters = 20, .wsd_decay = 0};
  const auto stays = [&] {
    for (std::int64_t it = lr.warmup; it <= 2 * lr.max_iters + 2; ++it) EXPECT_EQ(lr(it), lr.learning_rate) << it;
  };
  stays();
  lr.wsd_decay = 0.049;
  stays();
  lr = {.kind = LrSchedule::Kind::wsd, .warmup = 3, .max_iters = 9};
  stays();
  EXPECT_EQ(lr(0), lr.learning_rate / 4);
  lr = {.kind = LrSchedule::Kind::wsd, .warmup = 30, .max_iters = 30};  // the warm-up takes all
  stays();
  lr = {.kind = LrSchedule::Kind::wsd, .learning_rate = 5, .min_lr = 1, .warmup = 0, .max_iters = 20, .wsd_decay = 0.2};
  std::vector<double> last;
  for (std::int64_t it = 15; it <= 21; ++it) last.push_back(lr(it));
  EXPECT_EQ(last, (std::vector<double>{5, 5, 4, 3, 2, 1, 1})) << "the last iteration, 19, is one step above min_lr";
}

// 0.29 x 100 is below 29 in doubles.
TEST(LrSchedule, ASharesIterationsAreCountedAsDecimals) {
  for (int hundredths = 0; hundredths <= 100; ++hundredths) {
    const LrSchedule lr{.kind = LrSchedule::Kind::wsd, .warmup = 0, .max_iters = 100, .wsd_decay = hundredths / 100.0};
    const int begin = 100 - hundredths;
    EXPECT_DOUBLE_EQ(lr(begin), lr.learning_rate) << hundredths;
    if (hundredths > 1) {
      EXPECT_LT(lr(begin + 1), lr.learning_rate) << hundredths;
    }
  }
}

TEST(LrSchedule, NamesAreRead) {
  EXPECT_TRUE(ends_with_run(LrSchedule::Kind::wsd));
  EXPECT_FALSE(ends_with_run(LrSchedule::Kind::nanogpt));
}

}  // namespace
}  // namespace lockstep::train
