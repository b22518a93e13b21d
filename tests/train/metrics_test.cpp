#include "train/report/metrics.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(to_json(m).at("val_loss").number(), 4.128809);
  EXPECT_TRUE(to_json(Metrics{}).at("val_loss").is_null());
}

TEST(Metrics, MfuOfTheSeedRun) {
  RunningMfu mfu(40'846'548'271'104.0, 312e12);
  EXPECT_NEAR(mfu.update(0.282833), 46.288281, 1e-4);
  EXPECT_NEAR(mfu.update(0.306263), 45.934162, 1e-4);
}

}  // namespace
}  // namespace lockstep::train
