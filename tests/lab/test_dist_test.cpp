#include "lab/test_dist.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "comm/thread/thread_world.h"
#include "ops/open_ops.h"

namespace lockstep::lab {
namespace {

TestDistOptions options_of(const std::map<std::string, std::string>& environment) {
  return test_dist_options([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const std::map<std::string, std::string>& environment) {
  try {
    options_of(environment);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

struct Outcome {
  std::vector<TestDistIteration> history;
  std::vector<float> weights;
};

/// The outcome on every rank.
std::vector<Outcome> train(int ranks, const TestDistOptions& options) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, {.timeout = 60}, [&](comm::Communicator& world) {
    const auto runtime = open_runtime({}, {.threads = 1});
    const auto stream = runtime->make_stream();
    const auto ops = ops::make_ops(*runtime, *stream);
    TestDist run(options, *runtime, *ops, world);
    Outcome& outcome = outcomes[static_cast<std::size_t>(world.rank())];
    outcome.history = run.run({});
    const auto weights = elements<float>(run.weights());
    outcome.weights.assign(weights.begin(), weights.end());
  });
  return outcomes;
}

TEST(TestDist, ItsNetworkHasTheKnownNumberOfParameters) { EXPECT_EQ(parameters_of({}), 837'632); }

TEST(TestDist, TheLossFallsAsItShould) {
  for (const int ranks : {1, 2}) {
    const std::vector<Outcome> outcomes = train(ranks, {});
    for (const Outcome& outcome : outcomes) {
      ASSERT_EQ(outcome.history.size(), 99U);
      EXPECT_EQ(outcome.history.front().iteration, 1);
      EXPECT_GT(outcome.history.front().loss, ranks == 1 ? 2100 : 2000) << "others have samples of their own";
      EXPECT_LT(outcome.history.front().loss, 2800);
      EXPECT_NEAR(outcome.history.back().loss, 360, 30);
      EXPECT_EQ(outcome.weights, outcomes.front().weights);
    }
    if (ranks == 2) {
      EXPECT_NE(outcomes[0].history[0].loss, outcomes[1].history[0].loss);  // each has samples of its own
    }
  }
}

TEST(TestDist, LogsEveryFewIterationsAndTimesThem) {
  const TestDistOptions options{.batch = 3, .input = 5, .output = 5, .layers = {7}, .iterations = 10, .log_every = 4};
  const std::vector<TestDistIteration> history = train(1, options)[0].history;
  ASSERT_EQ(history.size(), 2U);
  EXPECT_EQ(history[0].iteration, 4);
  EXPECT_EQ(history[1].iteration, 8);
  EXPECT_DOUBLE_EQ(history[0].samples_per_second, 3 / history[0].seconds);
  EXPECT_NEAR(history[0].forward + history[0].backward, history[0].seconds, 1e-9);
}

TEST(TestDist, ANetworkWithoutLayersBetweenLearnsToo) {
  const TestDistOptions options{.batch = 16, .input = 8, .output = 8, .layers = {}, .iterations = 300};
  EXPECT_EQ(parameters_of(options), 72);
  const std::vector<TestDistIteration> history = train(2, options)[0].history;
  EXPECT_LT(history.back().loss, 0.8 * history.front().loss);
}

TEST(TestDist, LineHasTheSeedsFormat) {
  EXPECT_EQ(to_line({1, 2152.41, 16970, 0.00377066, 0.001003, 0.002768}),
            "iter=1, loss=2152.41, sps=1.697e+04, dt=0.00377066, dtf=0.001003, dtb=0.002768");
}

TEST(TestDist, TheEnvironmentHasItsSay) {
  const TestDistOptions options = options_of({{"BATCH_SIZE", "8"},
                                              {"INPUT_SIZE", "16"},
                                              {"OUTPUT_SIZE", "16"},
                                              {"LAYERS", "3"},
                                              {"LAYER_SIZES", "32,64"},
                                              {"TRAIN_ITERS", "5"},
                                              {"LOG_FREQ", "2"},
                                              {"DTYPE", "float32"},
                                              {"BACKEND", "DDP"},
                                              {"MASTER_PORT", "29501"}});
  EXPECT_EQ(options.batch, 8);
  EXPECT_EQ(layer_widths(options), (std::vector<std::int64_t>{16, 32, 64, 16}));
  EXPECT_EQ(options.iterations, 5);
  EXPECT_EQ(options.log_every, 2);
  EXPECT_TRUE(options_of({{"SIZES", ""}}).layers.empty());
}

TEST(TestDist, ValuesThatCannotBeAreAllNamed) {
  const std::string error = error_of({{"BATCH_SIZE", "many"},
                                      {"LAYER_SIZES", "32,,64"},
                                      {"TRAIN_ITERS", "0"},
                                      {"LOG_FREQ", "-1"},
                                      {"MASTER_PORT", "70000"},
                                      {"DTYPE", "bf16"},
                                      {"BACKEND", "deepspeed"},
                                      {"OUTPUT_SIZE", "64"}});
  for (const char* name : {"BATCH_SIZE=many", "LAYER_SIZES=32,,64", "TRAIN_ITERS=0", "LOG_FREQ=-1", "MASTER_PORT=70000",
                           "DTYPE=bf16", "BACKEND=deepspeed", "OUTPUT_SIZE=64: the network learns to give back its input"}) {
    EXPECT_NE(error.find(name), std::string::npos) << name << "\n" << error;
  }
  EXPECT_NE(error_of({{"LAYERS", "64,"}}).find("LAYERS=64,"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::lab
