// Rates that make the planner agree with what was measured.

#include "planner/calibration.h"

#include <gtest/gtest.h>

#include "planner/search.h"

namespace lockstep::planner {
namespace {

Work work_on(std::int64_t nodes) {
  arch::ModelConfig model;
  model.layers = 24;
  model.heads = model.kv_heads = 16;
  model.width = 2048;
  model.head_size = 128;
  model.ffn_width = 8192;
  Machine machine = *find_machine("a100");
  machine.nodes = nodes;
  return {model, 2048, machine, own_system};
}

Candidate layout_of(int dp, int tp) {
  Candidate candidate;
  candidate.plan.dp = dp;
  candidate.plan.tp = tp;
  candidate.plan.sequence = tp > 1;
  candidate.plan.ranks_per_host = 8;
  candidate.samples = 4;
  return candidate;
}

double seconds_on(const Work& work, const Candidate& candidate, const RateFactors& factors) {
  Work other = work;
  other.machine = scaled(work.machine, factors);
  return simulated_time(other, candidate).total();
}

TEST(Calibration, AFactorThatWasPlantedIsFound) {
  const Work work = work_on(1);
  const Candidate layout = layout_of(4, 2);
  EXPECT_EQ(largest_term(work, layout), Term::computing);
  for (const double planted : {0.3, 0.9, 1.0, 1.2}) {
    const double measured = seconds_on(work, layout, {.computing = planted});
    const auto found = fitted_factors(work, layout, measured, Term::computing);
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(found->computing, planted, 1e-6);
    EXPECT_EQ(found->links, 1);
  }
  const double slow = seconds_on(work, layout, {.links = 0.2});
  EXPECT_NEAR(fitted_factors(work, layout, slow, Term::links)->links, 0.2, 1e-6);
  const double both = seconds_on(work, layout, {.computing = 0.5, .links = 0.5});
  const auto all = fitted_factors(work, layout, both, Term::all);
  EXPECT_NEAR(all->computing, 0.5, 1e-6);
  EXPECT_NEAR(all->links, 0.5, 1e-6);
}

TEST(Calibration, ItGoesOnFromFactorsThatAreKnown) {
  const Work work = work_on(1);
  const Candidate layout = layout_of(8, 1);
  const RateFactors known{.update = 0.5, .links = 0.25};
  const double measured = seconds_on(work, layout, {.computing = 0.7, .update = 0.5, .links = 0.25});
  const auto found = fitted_factors(work, layout, measured, Term::computing, known);
  EXPECT_NEAR(found->computing, 0.7, 1e-6);
  EXPECT_EQ(found->update, 0.5);
  EXPECT_EQ(found->links, 0.25);
}

TEST(Calibration, WhatNoFactorMakesIsNothing) {
  const Work work = work_on(1);
  const Candidate layout = layout_of(8, 1);
  EXPECT_FALSE(fitted_factors(work, layout, 1e-9, Term::computing).has_value());
  EXPECT_FALSE(fitted_factors(work, layout, 1e9, Term::all).has_value());
}

TEST(Calibration, WaitingIsTheLargestTermWhereLinksAreSlow) {
  Work work = work_on(4);
  work.machine.between_rate = 0.05e9;
  EXPECT_EQ(largest_term(work, layout_of(32, 1)), Term::links);
}

TEST(Calibration, FactorsReachAllRatesThatTheyName) {
  const Machine& machine = *find_machine("a100");
  const Machine slow = scaled(machine, {.computing = 0.5, .update = 0.5, .links = 0.25});
  EXPECT_DOUBLE_EQ(slow.product_rate(2), machine.product_rate(2) / 2);
  EXPECT_DOUBLE_EQ(slow.product_rate(4), machine.product_rate(4) / 2);
  EXPECT_DOUBLE_EQ(slow.attention_rate(2), machine.attention_rate(2) / 2);
  EXPECT_DOUBLE_EQ(slow.memory_rate, machine.memory_rate / 2);
  EXPECT_DOUBLE_EQ(slow.in_place_rate(), machine.in_place_rate() / 4);
  EXPECT_DOUBLE_EQ(slow.link_share, machine.link_share / 4);
  EXPECT_DOUBLE_EQ(slow.between_latency, machine.between_latency * 4);
  EXPECT_EQ(slow.memory, machine.memory);
}

}  // namespace
}  // namespace lockstep::planner
