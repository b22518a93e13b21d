// Settings of LARS and Muon: what cannot be is refused with its reason; and the noise scale of a run that is reported.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/report/run_data.h"
#include "app/settings/run_config.h"
#include "app/start/resolve.h"
#include "train/optimizer/optimizer.h"

namespace lockstep::app {
namespace {

using Words = std::vector<std::string>;

std::string optimizer_complaint(const Words& overrides) {
  try {
    settings::resolve({.files = {}, .overrides = overrides});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const Words& words, const std::vector<std::string>& reasons) {
  const std::string text = optimizer_complaint(words);
  for (const std::string& reason : reasons) EXPECT_NE(text.find(reason), std::string::npos) << reason << " in: " << text;
}

TEST(OptimizerSettings, WhatNoRankHasWholeIsRefused) {
  expect_refused({"optimizer.name=muon", "train.backend=ps"},
                 {"optimizer.name = muon: it needs products of whole tensors, and parameter servers hold parts of them",
                  "optimizer.name=AdamW or sgd, or train.backend=DDP"});
  for (const char* mode : {"gradients", "weights", "async"})
    expect_refused({"optimizer.name=lars", "train.backend=ps", fmt::format("parallel.ps={}", mode)}, {"it needs norms of whole"});
  EXPECT_EQ(optimizer_complaint({"optimizer.name=sgd", "train.backend=ps"}), "");
}

TEST(OptimizerSettings, MuonHasNothingToDoBesideAdapters) {
  expect_refused(
      {"optimizer.name=muon", "adapter.rank=4"},
      {"optimizer.name = muon: it changes hidden matrices, which stay as they are beside adapters (adapter.rank = 4)"});
  EXPECT_EQ(optimizer_complaint({"optimizer.name=lars", "adapter.rank=4"}), "");
}

TEST(OptimizerSettings, AnUnknownMethodIsToldWhichThereAre) {
  expect_refused({"optimizer.name=lion"}, {"optimizer.name = lion", "AdamW", "sgd", "lars", "muon"});
}

TEST(OptimizerSettings, Fp16IsRefusedWithItsReason) {
  const std::string reason = "in fp16 small gradients are zero without a loss scaler";
  for (const char* word : {"fp16", "float16", "half"}) {
    expect_refused({fmt::format("train.dtype={}", word)},
                   {fmt::format("train.dtype = {}", word), "train.dtype=bf16 has", reason});
    expect_refused({fmt::format("train.precision={}", word)}, {"train.precision=bf16 has the range of fp32", reason});
  }
  expect_refused({"train.dtype=fp8"}, {"train.dtype = fp8: must be one of", "the default is float32"});
}

TEST(ReportedNoise, IsTheQuotientOfAllStepsAndOfTheLastOnes) {
  RunData run;
  run.steps.resize(3);
  for (std::size_t i = 0; i < 3; ++i) run.steps[i].step = static_cast<std::int64_t>(i) + 1;
  EXPECT_FALSE(run.noise_scale());
  EXPECT_TRUE(run.noise(false).x.empty());
  run.steps[0].noise = parallel::GradientNoise{.steps = 1, .square = -1, .variance = 10};
  run.steps[1].noise = parallel::GradientNoise{.steps = 1, .square = 3, .variance = 30};
  run.steps[2].noise = parallel::GradientNoise{.steps = 1, .square = 2, .variance = 40};
  EXPECT_EQ(run.noise_scale(), 80.0 / 4);
  EXPECT_EQ(run.noise(false).x, (std::vector<double>{2, 3})) << "there is none of the first";
  EXPECT_DOUBLE_EQ(run.noise(false).y[0], (0.9 * 10 + 30) / (3 - 0.9));
}

}  // namespace
}  // namespace lockstep::app
