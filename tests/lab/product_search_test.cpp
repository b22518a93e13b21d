// The searches for fast products.

#include <gtest/gtest.h>

#include <algorithm>

#include "lab/mamf.h"
#include "lab/swiglu_widths.h"

namespace lockstep::lab {
namespace {

TEST(Mamf, FiguresAreOfTheSameCalls) {
  const MamfRow row{1000, 1000, 500, {1, 2, 6}};
  EXPECT_DOUBLE_EQ(row.mean(), 1e9 / 3);
  EXPECT_DOUBLE_EQ(row.median(), 1e9 / 2);
  EXPECT_DOUBLE_EQ(row.max(), 1e9);
}

TEST(Mamf, TheBestOfEachFigureIsSaidWithItsShape) {
  MamfReport report;
  report.rows = {{1000, 1000, 500, {1e-3, 1e-3, 1e-3}}, {2000, 1000, 500, {1e-3, 4e-3, 4e-3}}};
  const std::string text = answer_of(report).text();
  EXPECT_NE(text.find("Tried 2 shapes"), std::string::npos);
  EXPECT_NE(text.find("mean:   1.0000 TFLOPS @ 1000x1000x500\n"), std::string::npos) << text;
  EXPECT_NE(text.find("max:    2.0000 TFLOPS @ 2000x1000x500\n"), std::string::npos) << text;
  EXPECT_NE(text.find("arithmetic mean over shapes: 0.8333(mean) 0.7500(median) 1.5000(max)"), std::string::npos) << text;
  EXPECT_NE(text.find("geometric mean over shapes: 0.8165(mean) 0.7071(median) 1.4142(max)"), std::string::npos) << text;
  report.rows.clear();
  report.stopped = true;
  EXPECT_NE(answer_of(report).text().find("Stopped"), std::string::npos);
  EXPECT_NE(answer_of(report).text().find("none\n"), std::string::npos);
}

TEST(Mamf, EveryShapeIsTimedThreeTimesAtLeastAndAStopIsHeard) {
  const auto runtime = open_runtime({}, {.threads = 2});
  for (const DType type : {DType::f32, DType::bf16}) {
    MamfOptions options{.m = {8, 16}, .n = {24}, .k = {4, 5}, .type = type, .warmups = 1, .trials = 9, .seconds = 1e-9};
    const MamfReport all = find_mamf(*runtime, options);
    ASSERT_EQ(all.rows.size(), 4U);
    EXPECT_EQ(all.rows[1].k, 5);
    for (const MamfRow& row : all.rows) EXPECT_EQ(row.seconds.size(), 3U);
    int heard = 0;
    options.progress = [&](const MamfRow&) { ++heard; };
    options.stopped = [&] { return heard == 3; };
    const MamfReport some = find_mamf(*runtime, options);
    EXPECT_EQ(some.rows.size(), 3U);
    EXPECT_TRUE(some.stopped);
  }
}

TEST(SwigluWidths, AreMultiplesOf4AroundTheUsualOne) {
  const std::vector<std::int64_t> widths = swiglu_widths(4096);
  EXPECT_EQ(widths.front(), 10922);
  EXPECT_EQ(widths[1], 10824);
  EXPECT_EQ(widths.back(), 11020);
  EXPECT_NE(std::ranges::find(widths, 10944), widths.end());
  EXPECT_EQ(swiglu_widths(3).size(), 1U + 27 - 1);  // 8, then 4, 12, 16, ... 108
}

TEST(SwigluWidths, AreRankedByTheirMedianShare) {
  SwigluReport report{.hidden = 4096, .tokens = 8, .base = {10922, 272.73e12, {0.5, 0.4, 0.6}, 3L * 10922 * 4096}, .ranked = {}};
  report.ranked = {{10944, 398.38e12, {0.75}, 3L * 10944 * 4096}};
  const std::string text = answer_of(report).text();
  EXPECT_NE(text.find("10922  272.7300   134209536  50.0 %  40.0 - 60.0 %  1.000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("10944  398.3800   134479872  75.0 %  75.0 - 75.0 %  1.500\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::lab
