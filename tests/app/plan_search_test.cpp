// `lockstep plan search MODEL MACHINE`.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "app/plan_command.h"
#include "app/settings/checks.h"
#include "app/settings/keys.h"
#include "app/start/plan.h"
#include "app/start/resolve.h"
#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

TEST(PlanSearch, NamesTheFastestWhyOthersLoseAndHowToRunIt) {
  const TempFolder folder;
  const std::string recipe = (folder / "w.toml").string();
  const std::string text = told({"search", "gpt2_xl", "a100", "--nodes", "2", "--global-batch", "64", "--top", "3", "--tokens",
                                 "1e9", "--price", "2", "--out", recipe});
  for (const char* part :
       {"gpt2_xl (1.56 G parameters) on a100: 2 x 8 devices; 64 samples of 1,024 tokens a step, bf16\n", "\n1 ", "\n3 ",
        "the fastest\n", " x the time: ", "\n1.00 G tokens: 15259 steps, ", " at 2 for a device's hour\n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("\n4 "), std::string::npos);
  EXPECT_NE(text.find("\nlockstep launch -n 16 --ppn 8 -- train --config " + recipe + "\n"), std::string::npos);
  const RunConfig config = settings::resolve({.files = {recipe}, .overrides = {}}).config;
  EXPECT_TRUE(check(config).empty());
  EXPECT_TRUE(check_layout(config, 16).empty());
  EXPECT_EQ(config.model.batch_size * config.optimizer.gas * config.parallel.dp.value_or(0), 64);
  EXPECT_EQ(config.model.n_embd, 1600);
}

// A script that counts GPUs writes 0 on a host without one.
TEST(PlanSearch, RanksOfAHostAreThoseOfTheEnvironmentUnlessItCountsNone) {
  for (const char* none : {"", "0"}) {
    setenv("NGPU_PER_HOST", none, 1);
    EXPECT_EQ(given_ranks_per_host({}), std::nullopt);
  }
  setenv("NGPU_PER_HOST", "4", 1);
  EXPECT_EQ(given_ranks_per_host({}), 4);
  setenv("NGPU_PER_HOST", "-4", 1);
  EXPECT_THROW(given_ranks_per_host({}), UserError);
  unsetenv("NGPU_PER_HOST");
}

TEST(PlanSearch, WeightsOfFp32TakeLongerAndTwiceTheBytes) {
  const TempFolder folder;
  const std::string recipe = (folder / "w.toml").string();
  const auto best = [&](const std::string& type) {
    const std::vector<std::string> words{"search",         "--machine", "a100",  "--nodes", "2",      "--model", "gpt2_xl",
                                         "--global-batch", "64",        "--out", recipe,    "--json", "--dtype", type};
    return Json::parse(printed(words)).at("best").array().at(0);
  };
  const Json bf16 = best("bf16"), fp32 = best("fp32");
  EXPECT_GT(fp32.at("step_seconds").number(), 1.5 * bf16.at("step_seconds").number());
  EXPECT_EQ(settings::resolve({.files = {recipe}, .overrides = {}}).config.train.dtype, (SpeltDType{DType::f32, true}));
  EXPECT_NE(printed({"search", "--machine", "a100", "--model", "gpt2", "--global-batch", "64", "--dtype", "fp32"})
                .find(" a step, fp32\n"),
            std::string::npos);
  EXPECT_NE(refusal({"search", "--machine", "a100", "--model", "gpt2", "--dtype", "fp8"})
                .find("--dtype: 'fp8' is not one of bf16|fp32"),
            std::string::npos);
}

TEST(PlanSearch, AMachineMayBeAPartOfANodeOrSeveral) {
  const auto asked = [](const std::string& machine, const std::string& gpus) {
    return printed({"search", "gpt2", machine, "--gpus", gpus, "--global-batch", "64", "--top", "1"});
  };
  EXPECT_NE(asked("a100", "2").find(" on a100: 1 x 2 devices; "), std::string::npos);
  EXPECT_NE(asked("mi300x", "16").find(" on mi300x: 2 x 8 devices; "), std::string::npos);
  EXPECT_NE(asked("gb200", "8").find(" on gb200: 1 x 8 devices; "), std::string::npos) << "of 72";
  EXPECT_NE(
      refusal({"search", "gpt2", "a100", "--gpus", "12"}).find("have 8 devices: at most these, or a multiple\n  -> --gpus 8"),
      std::string::npos);
  EXPECT_NE(refusal({"search", "gpt2", "a100", "--gpus", "0"}).find("--gpus 0: must be at least 1\n  -> --gpus 8"),
            std::string::npos);
  EXPECT_NE(refusal({"search", "gpt2", "a100", "--gpus", "8", "--nodes", "2"}).find("--nodes 2 and --gpus 8: two numbers"),
            std::string::npos);
}

TEST(PlanSearch, JsonHasTheSameAnswer) {
  const Json answer = Json::parse(printed({"search", "--model", "gpt2", "--machine", "h100", "--global-batch", "32", "--json"}));
  EXPECT_EQ(answer.at("ranks").integer(), 8);
  EXPECT_LE(answer.at("best").array().size(), 10U);
  const Json& first = answer.at("best").array().at(0);
  double sum = 0;
  for (const char* part :
       {"compute", "recompute", "tensor_parallel", "messages", "bubble", "gather", "activations", "replicas", "optimizer"})
    sum += first.at(part).number();
  EXPECT_NEAR(sum, first.at("step_seconds").number(), 1e-12);
  double before = 0;
  for (const Json& layout : answer.at("best").array()) {
    EXPECT_GE(layout.at("ranked_seconds").number(), layout.at("step_seconds").number());
    EXPECT_GE(layout.at("ranked_seconds").number(), before) << "in this order";
    before = layout.at("ranked_seconds").number();
  }
  EXPECT_TRUE(
      answer.at("command").string().starts_with("lockstep launch -n 8 --ppn 8 -- train model=gpt2 model.block_size=1024 "));
  EXPECT_GE(answer.at("families").array().size(), 5U);
}

TEST(PlanSearch, MachinesAndModelsComeFromFiles) {
  const TempFolder folder;
  const std::string machine = (folder / "m.toml").string(), model = (folder / "config.json").string(),
                    recipe = (folder / "r.toml").string();
  io::replace_file(machine, "base = \"a100\"\nname = \"ours\"\ndevices = 4\nmemory = \"40GB\"\ninside_gbps = 50\n");
  io::replace_file(model,
                   R"({"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 256, "n_positions": 512, "vocab_size": 1000})");
  const std::string text = printed({"search", "--machine", machine, "--model", model, "--global-batch", "8"});
  EXPECT_NE(text.find(" on ours: 1 x 4 devices; 8 samples of 512 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("--config F.toml, which --out F.toml writes"), std::string::npos) << text;
  io::replace_file(recipe, "[model]\nn_layer = 3\nn_embd = 96\nn_head = 3\nblock_size = 128\n");
  EXPECT_NE(printed({"search", "--machine", machine, "--model", recipe, "--global-batch", "8"}).find(" samples of 128 tokens"),
            std::string::npos);
}

TEST(PlanSearch, ALargeModelOnManyDevicesIsPlannedInSeconds) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text =
      told({"search", "--machine", "a100", "--nodes", "128", "--model", "gpt3_175B", "--global-batch", "1536"});
  RecordProperty("milliseconds", static_cast<int>((std::chrono::steady_clock::now() - start) / std::chrono::milliseconds(1)));
  EXPECT_NE(text.find("\nTP + PP "), std::string::npos) << text;
  EXPECT_NE(text.find("\nDDP - no such layout divides the ranks and the samples"), std::string::npos);
}

TEST(PlanSearch, WhatCannotBePlannedIsRefusedWithAllThatIsWrong) {
  const TempFolder folder;
  const std::string machine = (folder / "m.toml").string();
  io::replace_file(machine, "base = \"a100\"\nmemory = 0\nnode = 3\nunits = 1.5\npeak_tflops = \"many\"\n");
  const std::string all =
      refusal({"search", "--machine", machine, "--model", "gpt5", "--global-batch", "0", "--seq", "-1", "--tokens", "-1"});
  for (const char* part :
       {"m.toml: memory = 0: a device has some", "m.toml:3: node: a machine has no such key\n  -> did you mean nodes?",
        "units = 1.5: must be a whole number", "peak_tflops: must be a number", "model gpt5: neither",
        "--global-batch 0: must be", "--seq -1: must be", "--tokens -1: must be"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
  EXPECT_NE(refusal({"search", "--machine", "a1000", "--model", "gpt2"})
                .find("machine a1000: neither a preset nor a file\n  -> a100, a100-40gb, h100"),
            std::string::npos);
  io::replace_file(machine, "memory = \n");
  EXPECT_NE(refusal({"search", "--machine", machine, "--model", "gpt2"}).find("m.toml:1: "), std::string::npos);
  io::replace_file(machine, "base = \"z9\"\n");
  EXPECT_NE(refusal({"search", "--machine", machine, "--model", "gpt2"}).find("base = z9: there is no such preset"),
            std::string::npos);
  EXPECT_NE(refusal({"search", "--machine", "a100"}).find("MODEL is missing"), std::string::npos);
  EXPECT_NE(refusal({"search", "--model", "gpt2"}).find("MACHINE is missing"), std::string::npos);
}

TEST(PlanSearch, AMachinesNumbersAreOnesThatThereCanBe) {
  const TempFolder folder;
  const std::string machine = (folder / "m.toml").string();
  io::replace_file(machine, "base = \"a100\"\nmemory = inf\nhost_memory = nan\npeak_tflops = 1e-320\ninside_gbps = 1e300\n");
  const std::string all = refusal({"search", "--machine", machine, "--model", "gpt2"});
  for (const char* part :
       {"memory = inf: must be from 1e-09 to", "host_memory = nan: must be", "peak_tflops = ", "inside_gbps = 1e+300"})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
}

TEST(PlanSearch, WhereNothingFitsTheNearestConstraintIsNamed) {
  const TempFolder folder;
  const std::string machine = (folder / "m.toml").string();
  io::replace_file(machine, "base = \"a100\"\nmemory = \"2GB\"\nreserved = 0\nhost_memory = 0\ndisk_gbps = 0\n");
  const std::string large = refusal({"search", "--machine", machine, "--model", "llama3_8B", "--global-batch", "8"});
  EXPECT_NE(large.find("no layout fits: memory is nearest, the layout that takes least needs "), std::string::npos) << large;
  EXPECT_NE(large.find("more nodes (--nodes 2)"), std::string::npos);
  const std::string batch = refusal({"search", "--machine", "a100", "--nodes", "101", "--model", "gpt2", "--global-batch", "64"});
  EXPECT_NE(batch.find("--global-batch 64: no layout of 808 ranks"), std::string::npos) << batch;
}

TEST(PlanSearch, ABatchBeyondItsLimitIsNotAdvised) {
  const std::string text =
      refusal({"search", "--machine", "a100", "--nodes", "131071", "--model", "gpt2", "--global-batch", "16777213"});
  EXPECT_NE(text.find("fewer nodes (--nodes)"), std::string::npos) << text;
}

TEST(PlanSearch, ASlowMachinesRateIsNotNothing) {
  const TempFolder folder;
  const std::string machine = (folder / "m.toml").string();
  io::replace_file(machine,
                   "name = \"ours\"\ndevices = 2\nmemory = \"8GB\"\npeak_tflops = 0.1\nproduct_share = 0.5\n"
                   "f32_share = 0.25\nmemory_gbps = 10\ninside_gbps = 5\n");
  const std::string text = told({"search", "--machine", machine, "--model", "gpt2", "--global-batch", "8"});
  EXPECT_NE(text.find(" % 0.0"), std::string::npos) << text;
  EXPECT_EQ(text.find(" % 0 "), std::string::npos) << text;
}

TEST(PlanSearch, TheBestAreTrainedAndTheFastestIsTheRecipe) {
  const TempFolder folder;
  const std::string machine = (folder / "m.toml").string(), model = (folder / "small.toml").string(),
                    recipe = (folder / "w.toml").string();
  io::replace_file(machine,
                   "name = \"ours\"\ndevices = 2\nmemory = \"4GB\"\npeak_tflops = 0.1\nproduct_share = 0.5\n"
                   "f32_share = 0.25\nmemory_gbps = 10\ninside_gbps = 5\nbetween_gbps = 1\n");
  io::replace_file(model, "[model]\nn_layer = 2\nn_embd = 16\nn_head = 2\nblock_size = 8\nvocab_size = 32\n");
  const std::vector<std::string> words{"search", model, machine, "--global-batch", "8", "--dtype", "fp32", "--measure", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const Json answer = Json::parse(printed(with({"--top", "1", "--out", recipe, "--json"})));
  const Json::Array& measured = answer.at("measured").array();
  ASSERT_EQ(measured.size(), 2U);
  const auto seconds = [](const Json& row) { return row.at("measured_seconds").number(); };
  EXPECT_GT(seconds(measured[0]), 0);
  EXPECT_EQ(measured[0].at("predicted_seconds").dump(), answer.at("best").array()[0].at("step_seconds").dump());
  EXPECT_NEAR(measured[1].at("error").number(), measured[1].at("predicted_seconds").number() / seconds(measured[1]) - 1, 1e-9);
  const Json& fastest = answer.at("best").array()[seconds(measured[0]) <= seconds(measured[1]) ? 0 : 1];
  const RunConfig written = settings::resolve({.files = {recipe}, .overrides = {}}).config;
  for (const Json& setting : fastest.at("settings").array()) {
    const auto [name, value] = std::pair(setting.string().substr(0, setting.string().find('=')),
                                         setting.string().substr(setting.string().find('=') + 1));
    if (name == "train.dtype") continue;  // has several spellings
    EXPECT_EQ(settings::shown(settings::find_key(name)->get(written)), value) << name;
  }
  const std::string text = told(words);
  EXPECT_NE(text.find("\ntrained for a few steps here: number "), std::string::npos) << text;
  EXPECT_NE(text.find(" fastest "), std::string::npos) << text;
  for (const std::vector<std::string>& elsewhere :
       {std::vector<std::string>{"search", model, "a100", "--measure", "2"}, with({"--nodes", "2"})})
    EXPECT_NE(refusal(elsewhere).find("--measure 2: layouts are trained on this host, which "), std::string::npos);
}

TEST(PlanSearch, TheWinnersRecipeIsSimulated) {
  const TempFolder folder;
  const std::string recipe = (folder / "w.toml").string(), trace = (folder / "t.json").string();
  printed({"search", "--machine", "a100", "--nodes", "2", "--model", "gpt2", "--global-batch", "64", "--out", recipe});
  const std::string text = printed({"simulate", recipe, "--trace", trace});
  EXPECT_NE(text.find(" on a100: 2 x 8 devices, "), std::string::npos) << text;
  EXPECT_NE(text.find("\nstep "), std::string::npos) << text;
  EXPECT_NE(text.find("GiB of a device"), std::string::npos) << text;
  EXPECT_FALSE(Json::parse(io::read_file(trace)).at("traceEvents").array().empty());
  EXPECT_NE(refusal({"simulate", "gpt2"}).find("gpt2: not a recipe"), std::string::npos);
  EXPECT_NE(refusal({"simulate", recipe, "--nodes", "-1"}).find("--nodes -1: must be"), std::string::npos);
  EXPECT_NE(refusal({"simulate", recipe, "--nodes", "3"}).find("but there are 24"), std::string::npos);
  io::replace_file(recipe, "[parallel]\npp = 2\nschedule = \"file:a.csv\"\n");
  EXPECT_NE(refusal({"simulate", recipe}).find("a table has no time model"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::app
