#include "train/objective/objective.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace lockstep::train {
namespace {

struct Judged {
  double loss = 0;
  std::array<double, 2> slopes{};
  std::array<double, SampleFigures::most> figures{};
};

Judged judge(const ObjectiveSettings& settings, const std::array<double, 2>& own, const std::array<double, 2>& reference) {
  Judged judged;
  judged.loss = make_sample_loss(settings)->judge(own, reference, judged.slopes, judged.figures);
  return judged;
}

// Rafailov et al. 2023, equation 7, term by term; the smoothed loss is that of conservative DPO (Mitchell 2023).
double loss_of(double beta, double smoothing, const std::array<double, 2>& own, const std::array<double, 2>& reference) {
  const double margin = beta * ((own[0] - reference[0]) - (own[1] - reference[1]));
  const auto log_sigmoid = [](double x) { return -std::log1p(std::exp(-x)); };
  return -(1 - smoothing) * log_sigmoid(margin) - smoothing * log_sigmoid(-margin);
}

TEST(Objective, DpoIsItsFormulaAndSlopesAreItsDerivatives) {
  for (const double beta : {0.05, 0.5}) {
    for (const double smoothing : {0.0, 0.2}) {
      for (const std::array<double, 2> own : {std::array{-30.0, -41.5}, {-12.25, -3.0}, {-7.0, -7.0}}) {
        const std::array<double, 2> reference{-20.5, -25.0};
        const Judged judged = judge({Objective::dpo, beta, smoothing}, own, reference);
        EXPECT_NEAR(judged.loss, loss_of(beta, smoothing, own, reference), 1e-14);
        for (std::size_t i = 0; i < 2; ++i) {
          std::array<double, 2> more = own, less = own;
          more[i] += 1e-4;
          less[i] -= 1e-4;
          const double slope = (loss_of(beta, smoothing, more, reference) - loss_of(beta, smoothing, less, reference)) / 2e-4;
          EXPECT_NEAR(judged.slopes[i], slope, 1e-9);
        }
      }
    }
  }
}

TEST(Objective, DpoTellsRewardsAndLogProbabilities) {
  const Judged judged = judge({Objective::dpo, 0.5, 0}, {-10, -20}, {-14, -18});
  EXPECT_EQ(judged.figures, (std::array<double, 6>{1, 3, 2, -1, -10, -20}));
  EXPECT_EQ(judge({Objective::dpo, 0.5, 0}, {-10, -20}, {-8, -18}).figures[0], 0);  // a draw is no preference
}

TEST(Objective, DpoStaysFiniteFarFromTheReference) {
  for (const double far : {-5000.0, 5000.0}) {
    const Judged judged = judge({Objective::dpo, 1, 0.1}, {far, 0}, {0, 0});
    EXPECT_NEAR(judged.loss, far > 0 ? 500 : 4500, 1e-9);
    EXPECT_NEAR(judged.slopes[0], far > 0 ? 0.1 : -0.9, 1e-12);
  }
}

TEST(Objective, TokensAreJudgedByOthers) {
  for (const Objective kind : {Objective::lm, Objective::sft}) EXPECT_EQ(make_sample_loss({.kind = kind}), nullptr);
  EXPECT_FALSE(row_of(Objective::lm).needs_mask);
  EXPECT_TRUE(row_of(Objective::sft).needs_mask && row_of(Objective::dpo).needs_mask);
}

}  // namespace
}  // namespace lockstep::train
