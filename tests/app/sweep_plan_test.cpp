// Which runs a sweep is made of, and which of them cannot be.

#include "app/sweep/sweep_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lockstep::app {
namespace {

std::vector<std::string> values_of(const std::string& word) {
  std::vector<Problem> problems;
  const SweepWords words = sweep_words({word}, problems);
  EXPECT_TRUE(problems.empty()) << problems[0].message;
  return words.axes.empty() ? std::vector<std::string>() : words.axes[0].values;
}

using Values = std::vector<std::string>;

TEST(SweepWords, ListsAndRangesNameSeveralValues) {
  EXPECT_EQ(values_of("model.batch_size=4,8"), (Values{"4", "8"}));
  EXPECT_EQ(values_of("model.batch_size=4:16:4"), (Values{"4", "8", "12", "16"}));
  EXPECT_EQ(values_of("optimizer.learning_rate=0.001:0.003:0.001"), (Values{"0.001", "0.002", "0.003"}));
  EXPECT_EQ(values_of("parallel.schedule=gpipe,1f1b"), (Values{"gpipe", "1f1b"}));
  EXPECT_EQ(values_of("parallel.split=3,1;2,2"), (Values{"3,1", "2,2"}));
  EXPECT_EQ(values_of("parallel.schedule=file:a.csv;1f1b"), (Values{"file:a.csv", "1f1b"}));
  EXPECT_EQ(values_of("ranks=2"), (Values{"2"}));
  EXPECT_TRUE(values_of("model.batch_size=4").empty());
  EXPECT_TRUE(values_of("parallel.schedule=file:a.csv").empty());
}

TEST(SweepWords, AValueThatIsEmptyOrInAnotherWordIsRefused) {
  const auto refused = [](const std::vector<std::string>& words) {
    std::vector<Problem> problems;
    sweep_words(words, problems);
    return problems.empty() ? "" : problems[0].message;
  };
  EXPECT_EQ(refused({"model.batch_size=1,"}), "model.batch_size=1,: names an empty value");
  EXPECT_EQ(refused({"model.batch_size=1;;2"}), "model.batch_size=1;;2: names an empty value");
  EXPECT_EQ(refused({"model.batch_size=,"}), "model.batch_size=,: names no value");
  EXPECT_EQ(refused({"model.batch_size=4::16:4"}), "model.batch_size=4::16:4: is no range");
  for (const auto& words : {Values{"model.batch_size=1,2", "model.batch_size=4"}, {"model.batch_size=4", "model.batch_size=1,2"}})
    EXPECT_EQ(refused(words), "model.batch_size=4: model.batch_size is swept over 1, 2, too");
  EXPECT_EQ(refused({"model.batch_size=1,2", "model.n_layer=4"}), "");
}

TEST(SweepPoints, AreAllCombinationsTheFirstSlowest) {
  std::vector<Problem> problems;
  const SweepRequest request{.words = sweep_words({"ranks=1,2", "model.batch_size=4,6,8", "model.n_layer=2"}, problems),
                             .files = {},
                             .ranks = {},
                             .steps = 5};
  const std::vector<SweepPoint> points = sweep_points(request).points;
  ASSERT_EQ(points.size(), 6U);
  EXPECT_EQ(points[1].label, "ranks=1 model.batch_size=6");
  EXPECT_EQ(points[3].label, "ranks=2 model.batch_size=4");
  EXPECT_EQ(points[3].ranks, 2);
  EXPECT_EQ(points[4].config.model.batch_size, 6);
  EXPECT_EQ(points[4].config.model.n_layer, 2);
  EXPECT_EQ(points[5].config.train.max_iters, 5);
}

std::vector<std::string> labels_of(const std::vector<SweepPoint>& points) {
  std::vector<std::string> labels;
  for (const SweepPoint& point : points) labels.push_back(point.label + ": " + std::to_string(point.ranks));
  return labels;
}

SweepPlan laid_out(const std::string& layouts, std::vector<std::string> words = {}, std::optional<std::int64_t> ranks = {}) {
  std::vector<Problem> problems;
  SweepRequest request{.words = sweep_words(words, problems), .files = {}, .ranks = ranks, .steps = 20};
  add_layouts(request.words, layouts, problems);
  EXPECT_TRUE(problems.empty());
  return sweep_points(request);
}

TEST(SweepPoints, LayoutsAreInTheWordsOfVerifyAndSayTheirRanks) {
  const SweepPlan plan = laid_out("dp=4;dp=2,tp=2;zero=3;tp=3;pp=2:gpipe,gas=4;dp=1,recompute=full,optimizer.learning_rate=0.01",
                                  {"model.n_head=6"});
  EXPECT_TRUE(plan.left_out.empty());
  EXPECT_EQ(labels_of(plan.points),
            (std::vector<std::string>{"dp=4: 4", "dp=2,tp=2: 4", "zero=3: 4", "tp=3: 3", "pp=2:gpipe,gas=4: 4",
                                      "dp=1,recompute=full,optimizer.learning_rate=0.01: 1"}));
  const std::vector<SweepPoint>& points = plan.points;
  EXPECT_EQ(points[1].config.parallel.dp, 2);
  EXPECT_EQ(points[1].config.parallel.tp, 2);
  EXPECT_EQ(points[2].config.memory.zero, 3);
  EXPECT_FALSE(points[2].config.parallel.dp);
  EXPECT_EQ(points[4].config.parallel.schedule, "gpipe");
  EXPECT_EQ(points[4].config.optimizer.gas, 4);
  EXPECT_EQ(points[5].config.optimizer.learning_rate, 0.01);
  EXPECT_EQ(points[5].config.memory.recompute.kind, layout::Recompute::Kind::full);
}

TEST(SweepPoints, WhatCannotBeIsLeftOutWithTheReason) {
  std::vector<Problem> problems;
  const SweepPlan pairs =
      sweep_points({.words = sweep_words({"ranks=1,2", "parallel.tp=1,2"}, problems), .files = {}, .ranks = {}, .steps = 20});
  EXPECT_EQ(labels_of(pairs.points),
            (std::vector<std::string>{"ranks=1 parallel.tp=1: 1", "ranks=2 parallel.tp=1: 2", "ranks=2 parallel.tp=2: 2"}));
  ASSERT_EQ(pairs.left_out.size(), 1U);
  EXPECT_EQ(pairs.left_out[0].label, "ranks=1 parallel.tp=2");
  EXPECT_NE(pairs.left_out[0].why.at(0).message.find("tp 2"), std::string::npos) << pairs.left_out[0].why[0].message;
  const SweepPlan fixed = laid_out("dp=4;dp=2,tp=2;tp=5", {}, 4);
  EXPECT_EQ(fixed.points.size(), 2U);
  EXPECT_EQ(fixed.left_out.at(0).label, "tp=5");
  EXPECT_THROW(laid_out("tp=5;tp=7", {"model.n_head=12"}, 4), UserError);
  EXPECT_THROW(laid_out("dp=2;td=2"), UserError);
}

TEST(SweepPoints, BundlesAreSweptToo) {
  std::vector<Problem> problems;
  const SweepWords words = sweep_words({"model=shakespeare,gpt2", "train.warmup_iters=7"}, problems);
  ASSERT_TRUE(problems.empty());
  const std::vector<SweepPoint> points = sweep_points({.words = words, .files = {}, .ranks = {}, .steps = 20}).points;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].label, "model=shakespeare");
  EXPECT_EQ(points[0].config.model.n_embd, 384);
  EXPECT_EQ(points[1].config.model.n_embd, 768);
  EXPECT_EQ(points[1].config.train.warmup_iters, 7) << "as the command says";
  const SweepWords wrong = sweep_words({"model=gpt2,gpt9", "modl=a,b"}, problems);
  EXPECT_NE(problems.at(0).message.find("modl"), std::string::npos);
  EXPECT_THROW(sweep_points({.words = wrong, .files = {}, .ranks = {}, .steps = 20}), UserError);
}

// Else losses of large batches would be those of the first steps of a warm-up.
TEST(SweepPoints, SeeAsManyTokensAndWarmUpInATenthOfTheirSteps) {
  std::vector<Problem> problems;
  const SweepWords words = sweep_words({"model.batch_size=4,8,32", "ranks=2"}, problems);
  const SweepPlan plan = sweep_points({.words = words, .files = {}, .ranks = {}, .steps = 20});
  std::vector<std::int64_t> steps, warm_ups;
  for (const SweepPoint& point : plan.points) {
    steps.push_back(point.config.train.max_iters);
    warm_ups.push_back(point.config.train.warmup_iters);
    EXPECT_EQ(point.recipe.train.max_iters, 10000);
    EXPECT_EQ(point.recipe.train.warmup_iters, 100);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{160, 80, 20}));
  EXPECT_EQ(warm_ups, (std::vector<std::int64_t>{16, 8, 2}));
}

TEST(SweepPoints, TellWhatChangesNothingInThem) {
  std::vector<Problem> problems;
  const SweepWords words = sweep_words({"optimizer.beta1=0.8,0.9", "optimizer.name=sgd"}, problems);
  const std::vector<SweepPoint> points = sweep_points({.words = words, .files = {}, .ranks = {}, .steps = 200}).points;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].idle, std::vector<std::string>{"optimizer.beta1 = 0.8: it is of optimizer.name=AdamW and muon alone"});
  EXPECT_EQ(points[1].idle, std::vector<std::string>{"optimizer.beta1 = 0.9: it is of optimizer.name=AdamW and muon alone"});
}

}  // namespace
}  // namespace lockstep::app
