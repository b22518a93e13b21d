#include "lab/scaling.h"

#include <gtest/gtest.h>

namespace lockstep::lab {
namespace {

ScalingCurve curve() { return {"strong", {{1, 100, 1, 0}, {2, 180, 0.5, 0.01}, {4, 200, 0.25, 0.1}}}; }

TEST(Scaling, EfficiencyIsSpeedUpOverRanks) {
  const ScalingCurve c = curve();
  EXPECT_DOUBLE_EQ(c.speed_up(0), 1);
  EXPECT_DOUBLE_EQ(c.efficiency(0), 1);
  EXPECT_DOUBLE_EQ(c.speed_up(1), 1.8);
  EXPECT_DOUBLE_EQ(c.efficiency(1), 0.9);
  EXPECT_DOUBLE_EQ(c.efficiency(2), 0.5);
}

TEST(Scaling, TextAndJsonSayTheSame) {
  const std::string text = answer_of("tiny", {curve()}).text();
  for (const char* part : {"strong scaling of tiny", "1.80x", "90%", "40.0% of a step", "speed-up"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const Answer json = answer_of("tiny", {curve()});
  EXPECT_EQ(json.at("shape").string(), "tiny");
  EXPECT_DOUBLE_EQ(json.at("strong").array().at(1).at("efficiency").number(), 0.9);
  EXPECT_EQ(json.at("strong").array().at(2).at("ranks").integer(), 4);
}

}  // namespace
}  // namespace lockstep::lab
