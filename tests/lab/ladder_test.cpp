#include "lab/ladder/ladder.h"

#include <gtest/gtest.h>

#include "ops/cpu/options.h"

namespace lockstep::lab {
namespace {

using layout::AttentionWeights;

std::vector<int> numbers(std::string_view text) {
  std::vector<Problem> problems;
  std::vector<int> all;
  for (const Rung& rung : rungs_from(text, problems)) all.push_back(rung.number);
  EXPECT_TRUE(problems.empty()) << text;
  return all;
}

TEST(Rungs, AreNamedByNumbersAndRanges) {
  EXPECT_EQ(numbers("0-2"), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(numbers("7,2,5-6"), (std::vector<int>{0, 2, 5, 6, 7}));
  EXPECT_EQ(numbers("0-11").size(), rungs().size());
  for (const std::string_view text : {"", "12", "-1", "3-1", "1,", ",1", "a", "1-", "1--2", "2 "}) {
    std::vector<Problem> problems;
    EXPECT_TRUE(rungs_from(text, problems).empty()) << text;
    ASSERT_EQ(problems.size(), 1U) << text;
    EXPECT_NE(problems[0].message.find("must be numbers and ranges from 0 to 11"), std::string::npos);
  }
}

// The places that are measured, and figures that depend on them.
struct Climb {
  explicit Climb(bool each, int rounds = 1) {
    std::vector<Problem> problems;
    const LadderOptions options{.rungs = rungs_from("0-11", problems), .cores = 3, .rounds = rounds, .each = each};
    report = climb_ladder(step_shape("gpt2:4x64"), options, [&](const LadderPlace& place) {
      places.push_back(place);
      const double speed = 100.0 * static_cast<double>(places.size());
      return LadderSample{speed, std::int64_t{1} << 30};
    });
  }
  std::vector<LadderPlace> places;
  LadderReport report;
};

TEST(Ladder, ClimbsFromPlainKernelsToTheUsualOnes) {
  const Climb climb(false);
  ASSERT_EQ(climb.places.size(), 11U);  // all but the rung that has no meaning here
  const LadderPlace &foot = climb.places.front(), &top = climb.places.back();
  EXPECT_EQ(foot.plain, (ops::PlainKernels{.products = true, .epilogues = true, .norm = true, .adamw = true}));
  EXPECT_EQ(foot.attention, AttentionWeights::masked);
  EXPECT_EQ(foot.shape.vocabulary, 50257);
  EXPECT_EQ(top.plain, ops::PlainKernels{});
  EXPECT_EQ(top.attention, AttentionWeights::tiled);
  EXPECT_EQ(top.type, DType::bf16);
  EXPECT_EQ(top.shape.vocabulary, 50304);
  EXPECT_EQ(top.shape.samples, 4 * 4 * 3);
  EXPECT_EQ(top.ranks, 3);
  EXPECT_EQ(climb.places[1].attention, AttentionWeights::whole);
  EXPECT_FALSE(climb.places[2].plain.products);
  EXPECT_EQ(climb.report.totals(), std::vector<double>{11});
}

TEST(Ladder, EveryRungIsASwitchOfItsOwn) {
  const Climb climb(true);
  ASSERT_EQ(climb.places.size(), 11U);
  const LadderPlace foot = foot_of(step_shape("gpt2:4x64"));
  for (std::size_t i = 1; i < climb.places.size(); ++i) {
    const LadderPlace& place = climb.places[i];
    const bool differs = !(place.plain == foot.plain) || place.attention != foot.attention || place.type != foot.type ||
                         place.shape.vocabulary != foot.shape.vocabulary || place.shape.samples != foot.shape.samples;
    EXPECT_TRUE(differs) << i;
  }
  for (const LadderRow& row : climb.report.rows) {
    if (row.before.empty()) continue;
    EXPECT_EQ(row.tokens_before(), 100) << row.rung.name;
  }
  EXPECT_EQ(answer_of(climb.report).text().find("all rungs over rung 0"), std::string::npos);
}

TEST(Ladder, CountsWithinARoundAndClimbsDownAgain) {
  const Climb climb(false, 2);
  EXPECT_EQ(climb.places[11].ranks, 3);
  EXPECT_EQ(climb.places.back().attention, AttentionWeights::masked);
  EXPECT_EQ(climb.report.rows[1].ratios(), (std::vector<double>{2, 21.0 / 22}));
  EXPECT_EQ(climb.report.totals(), (std::vector<double>{11, 12.0 / 22}));
}

TEST(Ladder, ThePrintedTableSaysWhatHasNoMeaningHere) {
  Climb climb(false);
  climb.report.foot_share = 0.27;
  const std::string text = answer_of(climb.report).text();
  EXPECT_NE(text.find(" 4  pinned memory"), std::string::npos) << text;
  EXPECT_NE(text.find("n/a: batches are read where they lie"), std::string::npos) << text;
  EXPECT_NE(text.find("kernels.products=best"), std::string::npos) << text;
  EXPECT_NE(text.find("200.0   300.0  1.500 (1.500 to 1.500)"), std::string::npos) << text;
  EXPECT_NE(text.find("products of rung 0 reach 27 % of the rate of multiply-adds"), std::string::npos) << text;
  EXPECT_NE(text.find("all rungs over rung 0: 11.000 (11.000 to 11.000)"), std::string::npos) << text;
  const Answer json = answer_of(climb.report);
  EXPECT_EQ(json.at("rows").array().size(), 12U);
  EXPECT_EQ(json.at("totals").array()[0].number(), 11);
  EXPECT_EQ(json.at("rows").array()[2].at("tokens_per_s_before").number(), 200);
  EXPECT_TRUE(json.at("rows").array()[4].find("missing") != nullptr);
}

}  // namespace
}  // namespace lockstep::lab
