// The planner's times against what papers measured.

#include "planner/published.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lockstep::planner {
namespace {

TEST(Published, PresetsHaveTheTwoSharesThatAreFitted) {
  const Machine fitted = fitted_machine(), preset = *find_machine("a100");
  EXPECT_NEAR(preset.product_share, fitted.product_share, 5e-4);
  EXPECT_NEAR(preset.link_share, fitted.link_share, 5e-4);
}

TEST(Published, TwoSharesServeNearlyAllFigures) {
  const std::vector<Prediction> all = predict_published(*find_machine("a100"));
  ASSERT_EQ(all.size(), 30U);
  const auto within = std::ranges::count_if(all, [](const Prediction& one) { return std::abs(one.error()) <= 0.1; });
  EXPECT_GE(within, 25);
  EXPECT_LT(best_single_rate(0.1).within, within);
  int zero = 0;
  for (const Prediction& one : all) {
    if (layout::zero_level(one.figure->plan) < 3) continue;
    ++zero;
    EXPECT_LE(std::abs(one.error()), 0.2) << one.figure->name << " on " << one.figure->plan.ranks();
  }
  EXPECT_EQ(zero, 6);
}

}  // namespace
}  // namespace lockstep::planner
