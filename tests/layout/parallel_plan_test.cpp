#include "layout/parallel_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "layout/plan_fields.h"

namespace lockstep::layout {
namespace {

constexpr PlanLimits small{
    .layers = 4, .heads = 6, .ffn_width = 40, .vocabulary = 65, .positions = 16, .in_features = 30, .out_features = 40};

bool complains(const ParallelPlan& plan, std::int64_t ranks, std::string_view about) {
  const std::vector<Problem> problems = check(plan, small, ranks);
  return std::ranges::any_of(problems, [&](const Problem& p) { return p.message.find(about) != std::string::npos; });
}

TEST(ParallelPlan, APlanThatFitsHasNoProblem) {
  EXPECT_TRUE(check({}, small, 1).empty());
  const ParallelPlan all{.dp = 2,
                         .tp = 2,
                         .cp = 2,
                         .pp = 2,
                         .chunks = 2,
                         .sequence = true,
                         .schedule = "zb-v",
                         .microbatches = 4,
                         .ranks_per_host = 4};
  EXPECT_TRUE(check(all, small, 16).empty());
  EXPECT_EQ(describe(all), "dp=2 tp=2 cp=2 (allgather) pp=2 (zb-v) sequence");
  EXPECT_EQ(describe({}), "one rank");
}

// A plan's numbers are ints, and its rows of bytes are not: one that was cut to 32 bits would be another plan.
TEST(ParallelPlan, NoFieldTakesANumberThatThePlanCannotHold) {
  for (const FieldRow& row : plan_fields()) {
    if (row.value.type != ValueType::integer || row.unit == "bytes") continue;
    EXPECT_LE(row.value.rule.high, std::numeric_limits<int>::max()) << row.setting;
  }
  EXPECT_TRUE(complains({.dp = 1 << 20, .tp = 1024, .cp = 1024, .pp = 512}, 1, "= 562949953421312 ranks, but there is 1"));
}

TEST(ParallelPlan, EveryProblemIsToldAtOnceWithARemedy) {
  const ParallelPlan wrong{
      .dp = 0, .tp = 7, .cp = 9, .pp = 3, .chunks = 2, .sequence = true, .microbatches = 0, .ranks_per_host = 8};
  const std::vector<Problem> problems = check(wrong, small, 4);
  EXPECT_GE(problems.size(), 6U);
  for (const Problem& problem : problems) EXPECT_FALSE(problem.remedy.empty()) << problem.message;
}

TEST(ParallelPlan, DegreesMultiplyToTheRanks) {
  EXPECT_TRUE(complains({.dp = 2, .tp = 2, .ranks_per_host = 4}, 8, "dp 2 x tp 2 x cp 1 x pp 1 = 4 ranks, but there are 8"));
  EXPECT_TRUE(complains({.dp = 2}, 1, "but there is 1"));
}

TEST(ParallelPlan, EveryRankGetsAShareOfWhatIsCut) {
  EXPECT_TRUE(complains({.tp = 7, .ranks_per_host = 7}, 7, "6 heads"));
  EXPECT_TRUE(complains({.pp = 4, .chunks = 2}, 4, "4 layers"));
  EXPECT_TRUE(complains({.cp = 9}, 9, "8 pairs of positions"));
  EXPECT_TRUE(complains({.cp = 7, .context = ContextMethod::ulysses}, 7, "6 heads"));
  EXPECT_TRUE(
      complains({.tp = 4, .cp = 2, .context = ContextMethod::ulysses, .ranks_per_host = 4}, 8, "1 heads on a tensor rank"));
  EXPECT_TRUE(complains({.tp = 3, .cp = 8, .sequence = true, .ranks_per_host = 3}, 24, "2 positions in a rank's part"));
}

TEST(ParallelPlan, RanksThatDivideASequenceLieEvenlyOnHosts) {
  const auto hosts = [](int tp, int cp, int ranks_per_host, int dp = 1) {
    return context_hosts({.dp = dp, .tp = tp, .cp = cp, .ranks_per_host = ranks_per_host});
  };
  EXPECT_EQ(hosts(1, 4, 4), 1);
  EXPECT_EQ(hosts(1, 4, 5), 1) << "all ranks are on one";
  EXPECT_EQ(hosts(1, 4, 2), 2);
  EXPECT_EQ(hosts(2, 4, 4), 2);
  EXPECT_EQ(hosts(1, 4, 1), 4);
  EXPECT_EQ(hosts(4, 2, 2), 2) << "a tensor group is on several";
  EXPECT_EQ(hosts(1, 2, 4, 2), 1);
  EXPECT_EQ(hosts(1, 4, 3), 0);
  EXPECT_EQ(hosts(1, 4, 0), 0);
  EXPECT_EQ(hosts(1, 2, 3, 3), 0) << "one pair has a rank on each of two hosts";
  ParallelPlan plan{.cp = 4, .context = ContextMethod::ulysses_ring, .ranks_per_host = 3};
  EXPECT_TRUE(complains(plan, 4, "the 4 ranks of parallel.cp do not lie evenly on hosts of 3 ranks"));
  plan.ranks_per_host = 2;
  EXPECT_TRUE(check(plan, small, 4).empty());
  EXPECT_TRUE(complains({.cp = 7, .context = ContextMethod::ulysses_ring, .ranks_per_host = 7}, 7, "6 heads"));
}

TEST(ParallelPlan, TensorParallelRanksStayOnAHostUnlessAsked) {
  ParallelPlan plan{.tp = 4, .ranks_per_host = 2};
  EXPECT_TRUE(complains(plan, 4, "split across hosts"));
  plan.allow_tp_across_hosts = true;
  EXPECT_TRUE(check(plan, small, 4).empty());
  EXPECT_TRUE(complains({.tp = 2, .ranks_per_host = 0}, 2, "different numbers of ranks"));
}

TEST(ParallelPlan, CanonicalModeDividesItsRangesEvenly) {
  const auto plan = [](int dp, int tp, int microbatches = 1) {
    return ParallelPlan{.dp = dp, .tp = tp, .microbatches = microbatches, .ranks_per_host = dp * tp, .canonical = true};
  };
  for (const ParallelPlan& good : {plan(1, 1), plan(2, 2, 4), plan(8, 4), plan(1, 2, 8)})
    EXPECT_TRUE(check(good, small, good.ranks()).empty()) << describe(good);
  EXPECT_EQ(describe(plan(2, 2)), "dp=2 tp=2 canonical");
  EXPECT_TRUE(complains(plan(1, 3), 3, "parallel.tp = 3: numerics.canonical = true sums by 8 ranges"));
  EXPECT_TRUE(complains(plan(4, 1, 4), 4, "data-parallel ranks x optimizer.gas = 16"));
  EXPECT_TRUE(complains(plan(1, 1, 3), 1, "data-parallel ranks x optimizer.gas = 3"));
  ParallelPlan each = plan(2, 1, 2), tiled = plan(1, 1);
  each.reduce = ReduceEvery::microbatch;
  EXPECT_TRUE(complains(each, 2, "parallel.reduce = microbatch: numerics.canonical = true"));
  tiled.tiles = {2, 1};
  EXPECT_TRUE(complains(tiled, 1, "memory.tiles = 2x1: numerics.canonical = true"));
}

TEST(ParallelPlan, CanonicalModeDividesPositionsByItsRanges) {
  PlanLimits limits = small;
  limits.heads = 8;
  limits.positions = 24;
  const auto told = [&](const ParallelPlan& plan) {
    std::string all;
    for (const Problem& problem : check(plan, limits, plan.ranks())) all += problem.message + " -> " + problem.remedy + "\n";
    return all;
  };
  ParallelPlan plan{.cp = 4, .ranks_per_host = 0, .allow_tp_across_hosts = true, .canonical = true};
  EXPECT_EQ(told(plan), "");
  plan.tp = 2;
  plan.sequence = true;
  plan.context = ContextMethod::ulysses;
  EXPECT_EQ(told(plan), "");
  limits.positions = 20;
  EXPECT_NE(told(plan).find("parallel.sequence = true with parallel.cp = 4: of 20 positions in 8 ranges"), std::string::npos);
  plan.sequence = false;
  EXPECT_EQ(told(plan), "");
  plan.tp = 4;
  EXPECT_NE(told(plan).find("parallel.tp x parallel.cp = 16: numerics.canonical = true cuts heads"), std::string::npos);
  EXPECT_NE(told(plan).find("-> parallel.cp=2 or less, or numerics.canonical=false"), std::string::npos);
  plan = {.cp = 3, .ranks_per_host = 0, .canonical = true};
  EXPECT_NE(told(plan).find("parallel.cp = 3: numerics.canonical = true cuts positions into 8 ranges"), std::string::npos);
  EXPECT_NE(told(plan).find("-> parallel.cp=2 or 4, or numerics.canonical=false"), std::string::npos);
  for (const ContextMethod ring : {ContextMethod::ring, ContextMethod::ulysses_ring}) {
    plan = {.cp = 2, .context = ring, .ranks_per_host = 2, .canonical = true};
    EXPECT_NE(told(plan).find(" = true adds in one order, and a ring in that in which keys come by"), std::string::npos);
  }
  limits.heads = 3;
  EXPECT_NE(told({.cp = 4, .ranks_per_host = 0, .canonical = true}).find("parallel.cp = 4: the model has 3 heads"),
            std::string::npos);
}

// The second of four tensor ranks has 3 of 11 heads; half of them end where no range of all does.
TEST(ParallelPlan, CanonicalModeDividesSharedKeyValueHeadsWhereRangesEnd) {
  PlanLimits shared = small;
  shared.heads = 11;
  shared.kv_heads = 1;
  const auto problems = [&](int tp, int cp) {
    return check({.tp = tp, .cp = cp, .ranks_per_host = tp * cp, .canonical = true}, shared, std::int64_t{tp} * cp);
  };
  for (const auto& [tp, cp] : {std::pair{4, 1}, std::pair{2, 2}, std::pair{1, 4}}) EXPECT_TRUE(problems(tp, cp).empty());
  ASSERT_EQ(problems(4, 2).size(), 1U);
  EXPECT_NE(problems(4, 2).front().message.find("parallel.tp = 4, parallel.cp = 2: ranks would divide the 11 heads"),
            std::string::npos);
  shared.kv_heads = 11;
  EXPECT_TRUE(problems(4, 2).empty());
}

// All at once.
TEST(ParallelPlan, EveryProblemOfCanonicalModeIsTold) {
  const ParallelPlan wrong{.dp = 3, .tp = 3, .cp = 2, .context = ContextMethod::ring, .ranks_per_host = 18, .canonical = true};
  const std::vector<Problem> problems = check(wrong, small, 18);
  EXPECT_EQ(problems.size(), 3U);
  for (const Problem& problem : problems) EXPECT_NE(problem.remedy.find("numerics.canonical=false"), std::string::npos);
}

TEST(ParallelPlan, WhatNeedsAnotherSettingSaysSo) {
  EXPECT_TRUE(complains({.sequence = true}, 1, "parallel.sequence"));
  EXPECT_TRUE(complains({.chunks = 2}, 1, "parallel.virtual_stages"));
  EXPECT_TRUE(complains({.parameters = {CutOver::all, Tier::device}}, 1, "cut only with gradients"));
  EXPECT_TRUE(complains({.tiles = {0, 1}}, 1, "memory.tiles = 0x1"));
  EXPECT_TRUE(complains({.tiles = {31, 1}}, 1, "memory.tiles = 31x1: a block's smallest linear layer has 30 in-features"));
  EXPECT_TRUE(complains({.tiles = {1, 41}}, 1, "memory.tiles = 1x41: a block's smallest linear layer has 40 out-features"));
  EXPECT_TRUE(complains({.pp = 2, .chunks = 2}, 2, "parallel.virtual_stages = 2: schedule 1f1b has one chunk a rank"));
  EXPECT_TRUE(complains({.pp = 2, .split = {2, 1}}, 2, "parallel.split = 2,1: it adds up to 3 layers, and the model has 4"));
  EXPECT_TRUE(complains({.pp = 2, .split = {2, 1, 1}}, 2, "it has 3 parts, and the pipeline 2 stages"));
  EXPECT_TRUE(complains({.pp = 2, .split = {4, 0}}, 2, "every stage needs a layer"));
  EXPECT_TRUE(complains({.schedule = "2f2b"}, 1, "parallel.schedule = 2f2b: there is no such schedule"));
  const Placement on_host{CutOver::host, Tier::device};
  EXPECT_TRUE(complains({.dp = 3, .optimizer = on_host, .ranks_per_host = 2}, 3, "do not divide by the 2 of a host"));
  EXPECT_TRUE(complains({.dp = 3, .optimizer = on_host, .ranks_per_host = 0}, 3, "memory.zero_group"));
  EXPECT_TRUE(complains({.dp = 3, .tp = 2, .pp = 2, .optimizer = on_host, .ranks_per_host = 4}, 12, "lie evenly on hosts of 4"));
  EXPECT_FALSE(complains({.dp = 2, .tp = 2, .pp = 2, .optimizer = on_host, .ranks_per_host = 4}, 8, "memory.zero_group"));
  EXPECT_FALSE(complains({.dp = 4, .tp = 2, .pp = 2, .optimizer = on_host, .ranks_per_host = 4}, 16, "memory.zero_group"));
  EXPECT_TRUE(complains({.ranks_per_host = -1}, 1, "parallel.ranks_per_host = -1"));
}

TEST(ParallelPlan, RecomputationIsSpelt) {
  using enum Recompute::Kind;
  for (const auto& [text, recompute] : std::vector<std::pair<std::string, Recompute>>{
           {"none", {}}, {"selective", {selective}}, {"full", {full}}, {"every:3", {full, 3}}}) {
    EXPECT_EQ(recompute_from(text), recompute);
    EXPECT_EQ(to_string(recompute), text);
  }
  EXPECT_EQ(recompute_from("every:1"), Recompute{full});
  for (const char* text : {"", "all", "every", "every:", "every:0", "every:-2", "every:2x", "every:99999999999"})
    EXPECT_FALSE(recompute_from(text)) << text;
  EXPECT_TRUE(complains({.recompute = {full, 5}}, 1, "memory.recompute = every:5: the model has 4 blocks"));
  EXPECT_TRUE(check({.recompute = {full, 4}}, small, 1).empty());
  EXPECT_EQ(describe({.recompute = {full, 2}}), "recompute=every:2");
}

TEST(ParallelPlan, ATableOfPassesFitsItsRanksMicroBatchesAndLayers) {
  ParallelPlan plan{.pp = 2, .schedule = "file:t.csv", .table = read_action_table("0F0,0B0\n1F0,1B0\n", "t.csv")};
  EXPECT_EQ(plan.stages(), 2);
  EXPECT_TRUE(check(plan, small, 2).empty());
  plan.microbatches = 3;
  EXPECT_TRUE(complains(plan, 2, "optimizer.gas = 3: the table of parallel.schedule = file:t.csv has 1"));
  plan.pp = 4;
  EXPECT_TRUE(complains(plan, 4, "parallel.pp = 4: the table of parallel.schedule = file:t.csv has 2"));
  plan = {.pp = 1, .table = read_action_table("0F0,1F0,2F0,3F0,4F0,4B0,3B0,2B0,1B0,0B0\n", "five.csv")};
  EXPECT_TRUE(complains(plan, 1, "5 stages"));
}

}  // namespace
}  // namespace lockstep::layout
