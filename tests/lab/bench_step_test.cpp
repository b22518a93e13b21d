#include "lab/step/bench_step.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "support/tiny_engine.h"

namespace lockstep::lab {
namespace {

// Small enough to be trained within a test.
constexpr StepShape one_block{"small", 1, 2, 16, 65, 2, 8};

Layout bench_layout(std::string_view text) {
  std::vector<Problem> problems;
  return layout_from(text, problems, bench_defaults).value();
}

/// On one rank of `world`.
StepReport report_of(StepBenchOptions options, support::Machine& machine, comm::Communicator& world) {
  options.observed_ops = [&](ops::OpObserver& observer) {
    return ops::make_ops(*machine.runtime, *machine.stream, {.observer = &observer});
  };
  return bench_step(one_block, options, *machine.runtime, *machine.ops, world);
}

StepReport small_report(const StepBenchOptions& options) {
  support::Machine machine(2);
  return report_of(options, machine, *machine.world);
}

TEST(BenchStep, TimesAtLeastThreeSteps) {
  const StepReport report = small_report({.steps = 1, .seconds = 1e-9, .version = "1"});
  EXPECT_EQ(report.seconds.size(), 3U);
  EXPECT_GT(report.tokens_per_second(), 0);
  EXPECT_GT(report.first_step_seconds, 0);
  EXPECT_GE(report.first_step_after_start, report.first_step_seconds - 0.02);
  EXPECT_GT(report.peak_mib, 0);
  EXPECT_NEAR(report.first_loss, 4.17, 0.3);  // log 65: nothing learned yet
  EXPECT_LT(report.last_loss, report.first_loss);
}

TEST(BenchStep, TheAccountIsClosed) {
  const StepReport report = small_report({.steps = 4, .seconds = 5, .version = "1"});
  EXPECT_NEAR(std::accumulate(report.account.begin(), report.account.end(), 0.0), report.account_seconds, 1e-9);
  for (const double seconds : report.account) EXPECT_GE(seconds, 0);
  EXPECT_EQ(report.account[static_cast<std::size_t>(Part::ranks)], 0) << "there are no others";
  for (const Part part : {Part::products, Part::attention, Part::rows, Part::loss, Part::update}) {
    EXPECT_GT(report.account[static_cast<std::size_t>(part)], 0) << name_of(part);
  }
}

TEST(BenchStep, WithoutObservedKernelsThereIsNoAccount) {
  support::Machine machine(1);
  const StepReport report = bench_step(one_block, {.steps = 3, .version = "1"}, *machine.runtime, *machine.ops, *machine.world);
  EXPECT_GT(report.tokens_per_second(), 0);
  EXPECT_EQ(report.account_seconds, 0);
  EXPECT_EQ(answer_of(report, true).text().find("where a step's time goes"), std::string::npos);
}

TEST(BenchStep, JsonHasTheSharedKeysInOrder) {
  StepReport report = small_report({.steps = 3, .seconds = 5, .version = "1.2.3"});
  report.floor = Floor{.optimizer_seconds = report.median_seconds() / 2};
  const Json json = Json::parse(answer_of(report, false).json());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.object()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"peer",        "shape",    "dtype",           "mode",
                                            "ranks",       "threads",  "tokens_per_s",    "best_tokens_per_s",
                                            "gflops",      "steps",    "warm_up_s",       "first_loss",
                                            "last_loss",   "peak_mib", "device_peak_mib", "exposed_s",
                                            "floor_ratio", "layout",   "bubble",          "activation_bytes",
                                            "account",     "stages"}));
  EXPECT_EQ(json.at("peer").string(), "lockstep 1.2.3");
  EXPECT_EQ(json.at("threads").integer(), 2);
  EXPECT_DOUBLE_EQ(json.at("floor_ratio").number(), 2);
  double shares = 0;
  for (const auto& [part, share] : json.at("account").object()) shares += share.number();
  EXPECT_NEAR(shares, 1, 1e-3);
}

TEST(BenchStep, TextTellsWhatWasMeasured) {
  StepReport report = small_report({.steps = 3, .seconds = 5, .version = "1"});
  report.floor = Floor{.optimizer_seconds = report.median_seconds()};
  const std::string text = answer_of(report, true).text();
  for (const char* part : {"tokens/s", "1.000 x the floor", "first step after start", "clip and AdamW", "linear.backward_weight",
                           "weight gradient"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(answer_of(report, false).text().find("linear.backward_weight"), std::string::npos);
}

TEST(BenchStep, SaysInWhichTypeItTrained) {
  StepReport report = small_report({.weights = support::bf16_with_masters, .steps = 3, .seconds = 5, .version = "1"});
  EXPECT_EQ(answer_of(report, false).at("dtype").string(), "bf16");
  EXPECT_NE(answer_of(report, false).text().find("tokens, bf16, 2 threads"), std::string::npos);
  EXPECT_NEAR(report.first_loss, 4.17, 0.3);
  EXPECT_LT(report.last_loss, report.first_loss);
  EXPECT_EQ(answer_of(small_report({.steps = 3, .seconds = 5, .version = "1"}), false).at("dtype").string(), "fp32");
}

TEST(BenchStep, SaysWhatRecomputationLeaves) {
  const StepReport kept = small_report({.steps = 3, .seconds = 5, .version = "1"});
  const StepReport again =
      small_report({.layout = bench_layout("recompute=selective"), .steps = 3, .seconds = 5, .version = "1"});
  EXPECT_EQ(again.last_loss, kept.last_loss);
  EXPECT_EQ(answer_of(again, false).at("layout").string(), "dp=1,gas=1,recompute=selective");
  EXPECT_EQ(answer_of(kept, false).at("activation_bytes").integer(), kept.activation_bytes);
  EXPECT_NE(answer_of(again, false).text().find("(recompute selective)"), std::string::npos);
}

TEST(BenchStep, RanksShareTheSamples) {
  const StepReport alone = small_report({.steps = 3, .seconds = 5, .version = "1"});
  StepReport together;
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    StepReport report = report_of({.steps = 3, .seconds = 5, .version = "1"}, machine, world);
    if (world.rank() == 0) together = std::move(report);
  });
  EXPECT_EQ(together.ranks, 2);
  EXPECT_EQ(together.threads, 2);
  EXPECT_NEAR(together.first_loss, alone.first_loss, 1e-5);
  EXPECT_NE(answer_of(together, false).text().find("2 ranks with together 2 threads"), std::string::npos);
  EXPECT_NE(answer_of(together, false).text().find("waiting for gradients"), std::string::npos);
  EXPECT_GT(together.account[static_cast<std::size_t>(Part::ranks)], 0);
  EXPECT_NE(answer_of(together, false).text().find("waiting for ranks"), std::string::npos);
  EXPECT_EQ(answer_of(alone, false).text().find("waiting for ranks"), std::string::npos);
}

constexpr StepShape deep{"deep", 4, 2, 16, 65, 4, 8};

StepReport deep_report(std::string_view text) {
  const Layout wanted = bench_layout(text);
  StepReport first;
  comm::run_ranks(wanted.plan.ranks(), {.timeout = 60}, [&](comm::Communicator& world) {
    support::Machine machine(1);
    world.attach(*machine.stream, machine.runtime->team());
    StepReport report = bench_step(deep,
                                   {.layout = wanted,
                                    .steps = 3,
                                    .version = "1",
                                    .observed_ops =
                                        [&](ops::OpObserver& observer) {
                                          return ops::make_ops(*machine.runtime, *machine.stream, {.observer = &observer});
                                        }},
                                   *machine.runtime, *machine.ops, world);
    if (world.rank() == 0) first = std::move(report);
  });
  return first;
}

TEST(BenchStep, StagesShareTheLayersAndSayHowLongTheirScheduleWaits) {
  const StepReport one = deep_report("gas=4");
  for (const std::string schedule : {"1f1b", "zb-v"}) {
    const StepReport two = deep_report("pp=2:" + schedule + ",gas=4");
    EXPECT_EQ(two.last_loss, one.last_loss);
    EXPECT_NEAR(two.bubble, schedule == "1f1b" ? 1.0 / 5 : 1.0 / 25, 1e-9);
    const std::string stages = schedule == "1f1b" ? "2" : "4";
    EXPECT_NE(answer_of(two, false).text().find(stages + " stages, " + schedule + ", 4 micro-batches: ranks wait"),
              std::string::npos);
  }
  EXPECT_EQ(one.bubble, 0);
}

TEST(BenchStep, TheAccountTellsOfEachRankAndStage) {
  EXPECT_TRUE(deep_report("dp=2").stages.empty());
  const StepReport alone = deep_report("gas=4");
  EXPECT_EQ(alone.each.size(), 1U);
  EXPECT_EQ(answer_of(alone, false).text().find("of each rank"), std::string::npos);
  for (const std::string text : {"dp=1,pp=2,gas=4", "dp=1,tp=2,pp=2:zb-v,gas=4", "dp=2,pp=2:zb-h1,gas=2"}) {
    SCOPED_TRACE(text);
    const StepReport report = deep_report(text);
    ASSERT_EQ(static_cast<int>(report.each.size()), report.ranks);
    for (const RankAccount& account : report.each) {
      EXPECT_GT(account.kernels, 0);
      EXPECT_GT(account.ranks, 0);
      EXPECT_LE(account.list.all, account.together());
    }
    EXPECT_NEAR(report.each.front().together(), report.account_seconds, 1e-9);
    ASSERT_EQ(report.stages.size(), 2U);
    double equal = 0;
    for (const StageAccount& stage : report.stages) {
      EXPECT_GT(stage.passes, 0);
      EXPECT_LE(stage.passes, stage.list);
      EXPECT_NEAR(stage.waiting, 1 - stage.passes / stage.list, 1e-9);
      EXPECT_GE(stage.simulated, -1e-9);
      EXPECT_LT(stage.simulated, 1);
      equal += stage.equal / 2;
    }
    EXPECT_NEAR(equal, report.bubble, 1e-9);
    EXPECT_NE(answer_of(report, false).text().find("simulated equal"), std::string::npos);
    EXPECT_EQ(answer_of(report, false).at("stages").array().size(), 2U);
  }
}

TEST(BenchStep, AnyLayoutLearnsTheSameAndIsNamed) {
  const StepReport one = deep_report("gas=1");
  EXPECT_EQ(answer_of(one, false).text().find("layout  "), std::string::npos);
  for (const std::string text : {"dp=1,tp=2,sequence,gas=1", "dp=1,cp=2,gas=1", "dp=2,tp=2,gas=1,zero=3"}) {
    const StepReport report = deep_report(text);
    EXPECT_NEAR(report.last_loss, one.last_loss, 1e-5) << text;
    EXPECT_EQ(answer_of(report, false).at("layout").string(), text);
    EXPECT_NE(answer_of(report, false).text().find("\nlayout       " + text + "\n"), std::string::npos) << text;
  }
}

TEST(BenchStep, RefusesLayoutsThatDoNotFit) {
  const auto problems_of = [](std::string_view text, int ranks) {
    std::string all;
    for (const Problem& problem : check(one_block, bench_layout(text), ranks)) all += problem.message + "\n";
    return all;
  };
  EXPECT_EQ(problems_of("dp=2", 2), "");
  EXPECT_NE(problems_of("pp=2", 2).find("layout dp=1,pp=2,gas=1: 2 stages"), std::string::npos);
  EXPECT_NE(problems_of("tp=2", 4).find("= 2 ranks, but there are 4"), std::string::npos);
  EXPECT_NE(problems_of("dp=2,gas=2", 2).find("layout dp=2,gas=2: the 2 samples of small do not divide by dp x gas = 4"),
            std::string::npos);
}

TEST(BenchStep, RefusesRanksThatDoNotDivideTheSamples) {
  EXPECT_THROW(comm::run_ranks(3, {.timeout = 60},
                               [](comm::Communicator& world) {
                                 support::Machine machine(1);
                                 (void)bench_step(one_block, {}, *machine.runtime, *machine.ops, world);
                               }),
               UserError);
}

TEST(BenchStep, MedianOfAnEvenNumberIsBetweenTheMiddleTwo) {
  StepReport report;
  report.seconds = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(report.median_seconds(), 2.5);
  EXPECT_FALSE(report.floor_ratio().has_value());
}

TEST(BenchStep, UnknownShapeNamesTheKnownOnes) {
  try {
    step_shape("gpt2:4x63");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("gpt2:4x63"), std::string::npos);
    for (const std::string& name : step_shape_names()) EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
  }
}

TEST(Floor, CountsEveryProductAndTheOptimizer) {
  support::Machine machine(2);
  const Floor floor = measure_floor(one_block, {}, *machine.runtime, ops::Isa::automatic, 1);
  EXPECT_EQ(floor.products.size(), step_products(model_of(one_block), one_block.samples, one_block.positions).size());
  double sum = floor.optimizer_seconds;
  for (const FloorProduct& product : floor.products) {
    EXPECT_GT(product.seconds, 0) << name_of(product.product.role);
    sum += product.step_seconds();
  }
  EXPECT_GT(floor.optimizer_seconds, 0);
  EXPECT_DOUBLE_EQ(floor.seconds(), sum);
}

// Weight, gradient and moments read, all but the gradient written.
TEST(Floor, CountsTheOptimizersBytesByTheirType) {
  support::Machine machine(2);
  const auto parameters = static_cast<double>(arch::count_parameters(model_of(one_block)).total);
  const auto bytes = [&](const parallel::WeightStorage& weights) {
    const Floor floor = measure_floor(one_block, weights, *machine.runtime, ops::Isa::automatic, 1);
    return floor.optimizer_seconds * floor.bandwidth / parameters;
  };
  EXPECT_NEAR(bytes({}), 28, 1e-9);
  EXPECT_NEAR(bytes(support::bf16_with_masters), 28, 1e-9);
  EXPECT_NEAR(bytes(support::bf16_alone), 16, 1e-9);
}

}  // namespace
}  // namespace lockstep::lab
