#include "lab/staleness.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::lab {
namespace {

StalenessReport sample() {
  StalenessReport report{.workers = 4, .servers = 1, .steps = 10, .tokens = 40960, .runs = {}};
  report.runs.push_back({.mode = "DDP",
                         .bound = {},
                         .asynchronous = false,
                         .mean = 0,
                         .greatest = 0,
                         .validation = {"", {0, 10}, {4, 2}},
                         .tokens_per_second = 1000});
  report.runs.push_back({.mode = "ps async",
                         .bound = 4,
                         .asynchronous = true,
                         .mean = 1.5,
                         .greatest = 7,
                         .validation = {"", {0, 10}, {4, 2.05}},
                         .tokens_per_second = 2000});
  return report;
}

TEST(Staleness, LossesAreComparedWithTheSynchronousOne) {
  const StalenessReport report = sample();
  EXPECT_EQ(report.synchronous(), &report.runs[0]);
  EXPECT_DOUBLE_EQ(report.difference(report.runs[0]), 0);
  EXPECT_NEAR(report.difference(report.runs[1]), 2.5, 1e-9);
  StalenessReport alone = report;
  alone.runs.erase(alone.runs.begin());
  EXPECT_EQ(alone.synchronous(), nullptr);
  EXPECT_EQ(alone.difference(alone.runs[0]), 0);
}

TEST(Staleness, TextAndJsonSayTheSame) {
  const std::string text = answer_of(sample()).text();
  for (const char* part : {"10 steps of 4 workers, 40,960 tokens", "ps async, bound 4", "1.50", "+2.50%", "validation loss"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const Answer json = answer_of(sample());
  EXPECT_EQ(json.at("workers").integer(), 4);
  const Json::Array& runs = json.at("runs").array();
  EXPECT_TRUE(runs.at(0).at("staleness_max").is_null());
  EXPECT_EQ(runs.at(1).at("bound").integer(), 4);
  EXPECT_DOUBLE_EQ(runs.at(1).at("staleness_mean").number(), 1.5);
  EXPECT_DOUBLE_EQ(runs.at(1).at("val_losses").array().at(1).number(), 2.05);
}

TEST(Staleness, TheMadeUpTextIsAFunctionOfItsSeed) {
  const std::string text = made_up_text(1, 5000);
  EXPECT_GE(text.size(), 5000U);
  EXPECT_EQ(text, made_up_text(1, 5000));
  EXPECT_NE(text, made_up_text(2, 5000));
  EXPECT_GT(std::set<char>(text.begin(), text.end()).size(), 10U);
}

}  // namespace
}  // namespace lockstep::lab
