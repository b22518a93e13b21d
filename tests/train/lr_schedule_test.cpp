#include "train/lr_schedule.h"

#include <gtest/gtest.h>

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

TEST(LrSchedule, NamesAreRead) {
  EXPECT_EQ(schedule_from_name("wsd"), LrSchedule::Kind::wsd);
  EXPECT_THROW(schedule_from_name("cosin"), UserError);
}

}  // namespace
}  // namespace lockstep::train
