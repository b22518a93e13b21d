// `lockstep plan search --calibrate`.

#include <gtest/gtest.h>

#include "app/plan_command.h"
#include "app/train_command.h"
#include "base/error.h"
#include "base/json.h"
#include "io/file.h"

namespace lockstep::app {
namespace {

TEST(Calibrate, TokensOfALayoutAreWhatTheSearchSaysOfIt) {
  const std::vector<std::string> words{"search", "gpt2", "a100", "--gpus", "2", "--global-batch", "16", "--seq", "512"};
  const auto asked = [&](const std::string& line) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--calibrate", line, "--json"});
    return Json::parse(printed(all));
  };
  const Json json = asked("dp=2,zero=1,gas=2: 60000");
  EXPECT_NEAR(json.at("calibration").at("measured_seconds").number(), 16 * 512 / 60000.0, 1e-9);
  const double all = json.at("calibration").at("computing").number();
  EXPECT_LT(all, 1);
  EXPECT_NEAR(json.at("best").array().at(0).at("step_seconds").number(), 16 * 512 / 60000.0, 0.02) << "as fast as that one";
  EXPECT_NEAR(asked("dp=1,gas=4: 30000").at("calibration").at("computing").number() / all, 1, 0.1) << "of one device";
  std::vector<std::string> told = words;
  told.insert(told.end(), {"--calibrate", "dp=2,gas=2: 60000"});
  const std::string text = printed(told);
  EXPECT_NE(text.find("calibrated by 60000 tokens a second: a step takes 137 ms, "), std::string::npos) << text;
}

TEST(Calibrate, WhatIsNoMeasurementIsRefused) {
  const auto why = [](const std::string& what, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"search", "gpt2", "a100", "--global-batch", "64", "--calibrate", what};
    words.insert(words.end(), more.begin(), more.end());
    return refusal(words);
  };
  EXPECT_NE(why("nowhere").find("nowhere: no run's folder"), std::string::npos) << why("nowhere");
  EXPECT_NE(why("dp=8: many").find("dp=8: many: no run's folder"), std::string::npos);
  EXPECT_NE(why("dpp=8: 100").find("dpp"), std::string::npos);
  EXPECT_NE(why("dp=8,gas=3: 100").find("its 24 micro-batches do not divide --global-batch 64"), std::string::npos);
  EXPECT_NE(why("dp=8: -5").find("must be above 0"), std::string::npos);
  EXPECT_NE(why("dp=8: 1e12").find("--calibrate 1e+12 tokens a second: "), std::string::npos) << why("dp=8: 1e12");
  EXPECT_NE(why("dp=8: 1e-9").find("no rates of a100 make a step of "), std::string::npos) << why("dp=8: 1e-9");
  EXPECT_NE(why("runs/a", {"--system", "fsdp"}).find("a run of this program tells nothing of fsdp"), std::string::npos);
}

class CalibrateRun : public TrainCommand {};

TEST_F(CalibrateRun, PartsOfItsStepTellAFactorEach) {
  const std::string machine = (folder_ / "here.toml").string();
  io::replace_file(machine,
                   "name = \"here\"\ndevices = 2\nmemory = \"4GB\"\npeak_tflops = 1\nproduct_share = 0.01\nf32_share = 0.005\n"
                   "memory_gbps = 1\nupdate_gbps = 0.01\ninside_gbps = 5\n");
  for (const char* name : {"one", "two"}) {
    const std::vector<std::string> more = {"--ranks", name == std::string("one") ? "1" : "2", "train.threads=1"};
    const Outcome run = lockstep(words(name, more));
    ASSERT_EQ(run.code, 0) << run.err;
    std::vector<std::string> asked{"search",  "gpt2", machine,       "--global-batch",         "4", "--seq", "64",
                                   "--dtype", "fp32", "--calibrate", (folder_ / name).string()};
    EXPECT_NE(printed(asked).find(std::string("/") + name + ": a step takes "), std::string::npos);
    asked.emplace_back("--json");
    const Json found = Json::parse(printed(asked)).at("calibration");
    EXPECT_GT(found.at("measured_seconds").number(), 0);
    EXPECT_NE(found.at("computing").number(), 1);
    EXPECT_GT(found.at("update").number(), 0);
    EXPECT_TRUE(name == std::string("two") || found.at("links").number() == 1) << "one rank waits for none";
  }
}

}  // namespace
}  // namespace lockstep::app
