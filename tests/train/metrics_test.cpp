#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <numeric>

#include "arch/flops.h"
#include "io/file.h"
#include "support/temp_folder.h"
#include "support/tiny_engine.h"
#include "train/report/book_lines.h"
#include "train/report/history.h"
#include "train/report/log_lines.h"
#include "train/report/logged_step.h"
#include "train/report/metrics_file.h"

namespace lockstep::train {
namespace {

TEST(Metrics, SeedLine) {
  Metrics m;
  m.step = 10;
  m.loss = 3.15431;
  m.dt = 0.282833;
  m.mfu = 46.288281;
  m.train_loss = 4.125778;
  m.val_loss = 4.128809;
  const std::string line = log_line(m);
  EXPECT_EQ(line.rfind("step=10 loss=3.154310 dt=0.282833 dtf=0.000000 ", 0), 0U) << line;
  EXPECT_NE(line.find(" mfu=46.288281 train_loss=4.125778 val_loss=4.128809"), std::string::npos);
  EXPECT_EQ(to_json(m).find("val_loss"), nullptr);
  EXPECT_EQ(to_json(Losses{.step = 10, .train = 4.5, .validation = 4.25}).dump(),
            R"({"eval":true,"step":10,"train_loss":4.5,"val_loss":4.25})");
}

TEST(Metrics, MfuOfTheSeedRun) {
  RunningMfu mfu(40'846'548'271'104.0, 312e12);
  EXPECT_NEAR(mfu.update(0.282833), 46.288281, 1e-4);
  EXPECT_NEAR(mfu.update(0.306263), 45.934162, 1e-4);
}

// What is computed again: the forward pass of blocks, a third of their training, or a product of each.
TEST(Metrics, HfuCountsWhatIsComputedAgain) {
  EngineConfig config;
  config.model = support::tiny_llama();
  config.positions = 12;
  config.plan = {.dp = 2, .tp = 2, .microbatches = 3};
  config.samples = 2;
  const double model = arch::training_flops_per_token(config.model, 12);
  EXPECT_EQ(flops_per_iteration(config), model * 12 * 2 * 3 / 2);
  EXPECT_EQ(hardware_share(config), 1);
  config.plan.recompute = *layout::recompute_from("full");
  const auto layers = static_cast<double>(config.model.layers);
  EXPECT_DOUBLE_EQ(hardware_share(config), 1 + layers * arch::part_flops_per_token(config.model, 12).block / 3 / model);
  config.plan.recompute = *layout::recompute_from("selective");
  const auto product = static_cast<double>(2 * config.model.width * 2 * config.model.ffn_width);  // of gate and up
  EXPECT_DOUBLE_EQ(hardware_share(config), 1 + layers * product / model);
  config.plan.recompute = {};
  config.objective.kind = Objective::dpo;  // its head makes the logits twice
  const auto gains = static_cast<double>(config.model.width), head = gains * static_cast<double>(config.model.vocabulary);
  EXPECT_DOUBLE_EQ(hardware_share(config), 1 + 2 * (head + gains) / model);
}

TEST(Metrics, ExchangesAreReadAsTheyWereWritten) {
  Metrics m;
  m.exchanged.at(comm::Purpose::gradients, comm::Collective::all_reduce) = {.sent = 1000, .waited = 0.25, .hidden = 0.5};
  m.exchanged.at(comm::Purpose::keys, comm::Collective::send) = {.sent = 8, .waited = 0, .hidden = 0.125};
  m.exchanged.at(comm::Purpose::other, comm::Collective::barrier) = {.sent = 0, .waited = 0.125, .hidden = 0};
  m.tflops_per_gpu = 1.5;
  m.hfu = 40;
  const Json line = to_json(m);
  EXPECT_EQ(line.at("exchanged").at("gradients").dump(), R"({"all_reduce":{"sent_bytes":1000,"waited":0.25,"hidden":0.5}})");
  EXPECT_EQ(line.at("exchanged").find("weights"), nullptr);
  const LoggedStep step = logged_step(line, 1);
  ASSERT_TRUE(step.exchanged);
  EXPECT_EQ(step.exchanged->of(comm::Purpose::gradients).sent, 1000);
  EXPECT_EQ(step.exchanged->of(comm::Purpose::keys).hidden, 0.125);
  EXPECT_EQ(step.exchanged->total().waited, 0.375);
  EXPECT_EQ(step.waited[static_cast<std::size_t>(comm::Collective::all_reduce)], 0.25);
  EXPECT_EQ(step.hfu, 40);
  EXPECT_EQ(step.tflops_per_rank, 1.5);
  const LoggedStep alone = logged_step(to_json(Metrics{}), 1);
  EXPECT_FALSE(alone.exchanged) << "one rank exchanges nothing";
}

TEST(Metrics, AStepSaysHowManyTargetsItHas) {
  Metrics m;
  m.targets = 0;
  m.gradient_norm = 0.5;
  EXPECT_EQ(to_json(m).at("targets").integer(), 0);
  EXPECT_FALSE(logged_step(to_json(m), 1).has_loss);
  m.targets = 12;
  m.gradient_norm = 0;
  EXPECT_TRUE(logged_step(to_json(m), 1).has_loss) << "all targets were foreseen";
  const std::string line = to_json(m).dump(), targets = "\"targets\":12,";
  const std::string older = std::string(line).erase(line.find(targets), targets.size());
  EXPECT_FALSE(logged_step(Json::parse(older), 1).has_loss);
}

TEST(Metrics, TheNoiseScaleIsReadAsItWasWritten) {
  Metrics m;
  m.noise = parallel::GradientNoise{.steps = 3, .square = 2, .variance = 100};
  EXPECT_EQ(to_json(m).at("noise_scale").number(), 50);
  const LoggedStep step = logged_step(to_json(m), 1);
  ASSERT_TRUE(step.noise);
  EXPECT_EQ(step.noise->steps, 3);
  EXPECT_EQ(step.noise->scale(), 50);
  m.noise->square = -2;
  EXPECT_EQ(to_json(m).find("noise_scale"), nullptr) << "noise hides the gradient";
  EXPECT_EQ(logged_step(to_json(m), 1).noise->square, -2);
  m.noise = parallel::GradientNoise{.steps = 3, .square = 2, .variance = -100};
  EXPECT_EQ(to_json(m).find("noise_scale"), nullptr) << "the estimate of the noise is below zero";
  EXPECT_FALSE(logged_step(to_json(Metrics{}), 1).noise);
}

TEST(Metrics, AStepWithoutTargetsHasNoLoss) {
  Metrics m;
  m.targets = 0;
  EXPECT_FALSE(has_loss(m));
  EXPECT_EQ(loss_in_words(m), "no targets");
  EXPECT_FALSE(logged_step(to_json(m), 1).has_loss);
  m.loss = 1.5;  // other workers, which do not wait for this one, had targets
  EXPECT_TRUE(has_loss(m));
  EXPECT_EQ(loss_in_words(m), "loss 1.5000");
  EXPECT_TRUE(logged_step(to_json(m), 1).has_loss);
  m.targets = 1;
  m.loss = 0;
  m.gradient_norm = 1e-9;
  EXPECT_TRUE(logged_step(to_json(m), 1).has_loss);
  TrainingHistory history;
  HistoryKeeper keeper(history);
  keeper.step_done(m);
  m.targets = 0;
  keeper.step_done(m);
  EXPECT_EQ(history.train.y, std::vector<double>{0});
}

TEST(Metrics, WhatIsLostToALateRankIsAPartOfTheStepsSum) {
  Metrics m;
  m.dt = 1;
  m.dtf = 0.2;
  m.dtb = 0.6;  // with the update, which has the wait for gradients
  m.update_seconds = 0.3;
  m.exposed_seconds = 0.25;
  const auto sum = [](const LoggedStep& step) { return std::accumulate(step.parts.begin(), step.parts.end(), 0.0); };
  const LoggedStep quiet = logged_step(to_json(m), 1);
  EXPECT_FALSE(quiet.late_rank);
  EXPECT_EQ(quiet.in(StepPart::lost), 0);
  m.late = LateRank{.rank = 3, .seconds = 0.125, .factor = 1.3};
  EXPECT_EQ(lost_in_words(m.late), ", 125 ms of a step lost to rank 3");
  EXPECT_NE(log_line(m).find(" late_rank=3 lost_seconds=0.125000"), std::string::npos) << log_line(m);
  const LoggedStep waits = logged_step(to_json(m), 1);
  EXPECT_EQ(waits.late_rank, 3);
  EXPECT_EQ(waits.in(StepPart::lost), 0.125);
  EXPECT_EQ(waits.in(StepPart::exposed), 0.125) << "rank 0 waits for its gradients";
  EXPECT_EQ(waits.in(StepPart::backward), quiet.in(StepPart::backward));
  EXPECT_NEAR(sum(waits), sum(quiet), 1e-12);
  m.late->seconds = 0.4;  // more than that wait: the rest is in the passes, which wait for messages and sums
  const LoggedStep inside = logged_step(to_json(m), 1);
  EXPECT_EQ(inside.in(StepPart::exposed), 0);
  EXPECT_NEAR(inside.in(StepPart::lost), 0.4, 1e-12);
  EXPECT_NEAR(inside.in(StepPart::forward), 0.2 - 0.15 * 0.2 / 0.5, 1e-12);
  EXPECT_NEAR(sum(inside), sum(quiet), 1e-12);
  m.late->rank = 0;  // its own passes are longer
  const LoggedStep own = logged_step(to_json(m), 1);
  EXPECT_EQ(own.in(StepPart::exposed), 0.25);
  EXPECT_NEAR(own.in(StepPart::lost), 0.4, 1e-12);
  EXPECT_NEAR(sum(own), sum(quiet), 1e-12);
}

TEST(Progress, ALateRankIsNamedWithItsHost) {
  const TempFolder folder;
  const io::Path file = folder.path() / "said";
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(file.c_str(), "w"), std::fclose);
    Log log(out.get(), Level::info);
    LogLines lines(log, "");
    lines.rank_changed({{.rank = 3, .seconds = 0.034, .factor = 1.3}, true}, "b12", 240);
    lines.rank_changed({{.rank = 3, .seconds = 0.034, .factor = 1.3, .by_peers = false}, true}, "b12", 250);
    lines.rank_changed({{.rank = 3}, false}, "b12", 400);
  }
  const std::string said = io::read_file(file);
  EXPECT_NE(
      said.find("step 240: the other ranks wait 34 ms of each step for rank 3 on b12, whose work takes 1.30 times as long as "
                "theirs; look there for other programs, heat, and slow memory or disks"),
      std::string::npos)
      << said;
  EXPECT_NE(said.find("1.30 times as long as before;"), std::string::npos) << said;
  EXPECT_NE(said.find("step 400: the other ranks wait no longer for rank 3 on b12"), std::string::npos) << said;
}

TEST(Progress, LinesOfTheBooksLog) {
  EXPECT_EQ(progress_line({.step = 1, .train = 9.5349, .validation = 9.6091}, 1, {7238.4, 0}, false),
            "Ep 1, Step 000000, Train: 9.535, Val: 9.609, Step tok/sec: 7238, Avg tok/sec: 0");
  EXPECT_EQ(progress_line({.step = 766, .train = 0.15, .validation = 6.914}, 15, {12531.6, 12258.5}, false),
            "Ep 15, Step 000765, Train: 0.150, Val: 6.914, Step tok/sec: 12532, Avg tok/sec: 12258");
  EXPECT_EQ(progress_line({.step = 1234568, .train = 1, .validation = 2}, 2, {3, 4}, true),
            "Ep 2, Step 1234567, Train: 1.000, Val: 2.000, Step tok/sec: 3, Global avg tok/sec: 4");
}

TEST(Progress, MemoryInGibWithFourDigits) {
  EXPECT_EQ(memory_lines({.kept = 2691738010, .committed = 28198285000}),
            "\nAllocated memory: 2.5069 GB\nReserved memory: 26.2617 GB\n");
}

TEST(Progress, OneRanksAverageLeavesTheFirstIntervalOut) {
  TokenRates rates(false);
  rates.start(100);
  rates.add(1000);
  const TokenRates::Rates first = rates.mark(110);
  EXPECT_EQ(first.interval, 100);
  EXPECT_EQ(first.average, 0);
  rates.add(2000);
  rates.add(2000);
  const TokenRates::Rates second = rates.mark(120);
  EXPECT_EQ(second.interval, 400);
  EXPECT_EQ(second.average, 400);
  rates.add(1000);
  EXPECT_EQ(rates.mark(130).average, 250);
}

TEST(Progress, SeveralRanksAverageHasAllIntervals) {
  TokenRates rates(true);
  rates.start(0);
  rates.add(1000);
  EXPECT_EQ(rates.mark(10).average, 100);
  rates.add(3000);
  EXPECT_EQ(rates.mark(20).average, 200);
}

TEST(Progress, AnIntervalWithoutTimeHasNoRate) {
  TokenRates rates(true);
  rates.start(5);
  rates.add(1000);
  EXPECT_EQ(rates.mark(5).interval, 0);
}

}  // namespace
}  // namespace lockstep::train
