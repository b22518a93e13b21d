// wandb-history.jsonl as `train` writes it, and examples/wandb_upload.py, which sends it, with a client that writes down what it
// is told.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "app/train_command.h"
#include "io/child.h"

namespace lockstep::app {
namespace {

class Wandb : public TrainCommand {
 protected:
  Wandb() { unsetenv("WANDB_DISABLED"); }
  ~Wandb() override { unsetenv("WANDB_DISABLED"); }

  std::vector<Json> rows(const std::string& run) const {
    std::vector<Json> found;
    std::istringstream in(file(run + "/wandb-history.jsonl"));
    for (std::string line; std::getline(in, line);) found.push_back(Json::parse(line));
    return found;
  }
  bool has_history(const std::string& run) const { return std::filesystem::exists(folder_ / run / "wandb-history.jsonl"); }
};

TEST_F(Wandb, EveryLogLineIsARow) {
  ASSERT_EQ(lockstep(words("a", {"log.wandb=offline", "optimizer.gas=2"})).code, 0);
  const std::vector<Json> all = rows("a");
  ASSERT_EQ(all.size(), 8U);  // the start, evaluations at 0, 4 and 8, and steps 2, 4, 6 and 8
  EXPECT_GT(all[0].at("Timing/startup_time").number(), 0);
  EXPECT_EQ(all[0].at("_step").integer(), 0);
  const Json& row = all[3];
  EXPECT_EQ(row.at("_step").integer(), 4);
  EXPECT_GT(row.at("_timestamp").number(), 1.7e9);
  EXPECT_EQ(row.at("Training/iter").integer(), 3);
  EXPECT_EQ(row.at("Loss/iter").integer(), 4);
  EXPECT_EQ(row.at("Training/loss_tot").number(), losses("a").at(1));
  EXPECT_EQ(row.at("Training/loss").number(), losses("a").at(1) / 2);
  EXPECT_EQ(row.at("Timing/dtf_tot").number(), 2 * row.at("Timing/dtf").number());
  for (const char* key :
       {"Training/lr", "Timing/iter", "Timing/dt", "Timing/dt_tot", "Timing/dt_avg", "Timing/dtf_avg", "Timing/dtb",
        "Timing/dtb_tot", "Timing/dtb_avg", "Timing/dt_iter", "Timing/tokens_per_sec", "Timing/samples_per_sec",
        "Timing/tokens_per_sec_per_gpu", "Timing/samples_per_sec_per_gpu", "Loss/lossf", "Loss/mfu"})
    EXPECT_TRUE(row.at(key).is_number()) << key;
  std::vector<std::int64_t> evaluations;
  for (const Json& one : all) {
    if (one.find("Loss/val") == nullptr) continue;
    EXPECT_EQ(one.find("Loss/lossf"), nullptr);
    EXPECT_TRUE(one.at("Loss/train").is_number());
    EXPECT_EQ(one.at("Loss/iter").integer(), one.at("_step").integer());
    evaluations.push_back(one.at("_step").integer());
  }
  EXPECT_EQ(evaluations, (std::vector<std::int64_t>{0, 4, 8}));
  EXPECT_EQ(all.back().at("Loss/val").number(), lines("a", true).back().at("val_loss").number());
}

TEST_F(Wandb, IsOffUnlessItIsAskedFor) {
  ASSERT_EQ(lockstep(words("a")).code, 0);
  EXPECT_FALSE(has_history("a"));
  setenv("WANDB_DISABLED", "true", 1);
  const Outcome disabled = lockstep(words("b", {"log.wandb=offline"}));
  ASSERT_EQ(disabled.code, 0) << disabled.err;
  EXPECT_FALSE(has_history("b"));
  EXPECT_NE(disabled.out.find("WANDB_DISABLED is set, so nothing is written"), std::string::npos);
  setenv("WANDB_DISABLED", "false", 1);
  ASSERT_EQ(lockstep(words("c", {"log.wandb=offline"})).code, 0);
  EXPECT_TRUE(has_history("c"));
  EXPECT_EQ(lockstep(words("d", {"log.wandb=online"})).code, 2);
}

TEST_F(Wandb, AnEarlierRunsRowsAreKeptAndATornOneGoes) {
  std::filesystem::create_directories(folder_ / "a");
  io::replace_file(folder_ / "a/wandb-history.jsonl", "{\"_step\": 7}\n");
  ASSERT_EQ(lockstep(words("a", {"log.wandb=offline", "train.max_iters=4"})).code, 0);
  EXPECT_EQ(file("a/wandb-history.1.jsonl"), "{\"_step\": 7}\n");
  io::replace_file(folder_ / "a/wandb-history.jsonl", file("a/wandb-history.jsonl") + "{\"_st");
  ASSERT_EQ(lockstep({"train", "log.dir=" + (folder_ / "a").string(), "train.init_from=resume", "train.max_iters=6"}).code, 0);
  const std::vector<Json> all = rows("a");
  ASSERT_EQ(all.size(), 8U);  // start, evaluation, 2, 4, evaluation; start again, 6, evaluation
  EXPECT_EQ(all[5].at("_step").integer(), 4);
  EXPECT_EQ(all[6].at("_step").integer(), 6);
}

class WandbUpload : public Wandb {
 protected:
  void SetUp() override {
    if (io::run_child({"python3", "-c", ""}, 60).status != 0) GTEST_SKIP() << "there is no python3";
    if (!std::filesystem::exists(script_)) GTEST_SKIP() << "run from the source folder";
    TrainCommand::SetUp();
    std::filesystem::create_directories(folder_ / "client");
    io::replace_file(folder_ / "client/wandb.py", R"(import json, os
out = open(os.environ["TOLD"], "a")
class Run:
    dir = "wandb/here/files"
    offline = os.environ.get("WANDB_MODE") == "offline"
    disabled = os.environ.get("WANDB_MODE") == "disabled"
    def log(self, row, step): print(json.dumps(["log", step, row]), file=out)
    def finish(self): print(json.dumps(["finish"]), file=out, flush=True)
def init(**settings):
    print(json.dumps(["init", settings]), file=out)
    return Run()
)");
  }
  io::ChildOutcome upload(std::vector<std::string> more, const std::string& environment = "") const {
    std::vector<std::string> words{"env", "PYTHONPATH=" + (folder_ / "client").string(), "TOLD=" + (folder_ / "told").string()};
    if (!environment.empty()) words.push_back(environment);
    words.insert(words.end(), {"python3", script_});
    words.insert(words.end(), more.begin(), more.end());
    return io::run_child(words, 60);
  }
  std::vector<Json> told() const {
    std::vector<Json> found;
    std::istringstream in(file("told"));
    for (std::string line; std::getline(in, line);) found.push_back(Json::parse(line));
    return found;
  }
  const std::string script_ = "examples/wandb_upload.py";
};

TEST_F(WandbUpload, SendsARowAStepTheLastWordOnEach) {
  ASSERT_EQ(lockstep(words("a", {"log.wandb=offline", "log.name=calm-otter-1", "train.wandb_project=talks"})).code, 0);
  // A run that was killed behind step 6 and went on from step 4.
  io::replace_file(folder_ / "a/wandb-history.jsonl",
                   "{\"Timing/startup_time\": 1.5, \"_step\": 0, \"_timestamp\": 10.0}\n"
                   "{\"Loss/lossf\": 3.0, \"_step\": 4}\n{\"Loss/lossf\": 2.0, \"_step\": 6}\n"
                   "{\"Timing/startup_time\": 2.5, \"_step\": 4}\n{\"Loss/lossf\": null, \"Loss/mfu\": 7.0, \"_step\": 5}\n");
  const io::ChildOutcome outcome = upload({(folder_ / "a").string(), "--entity", "us"});
  ASSERT_EQ(outcome.status, 0) << outcome.out;
  const std::vector<Json> all = told();
  ASSERT_EQ(all.size(), 5U);
  const Json& run = all[0].array()[1];
  EXPECT_EQ(run.at("project").string(), "talks");
  EXPECT_EQ(run.at("name").string(), "calm-otter-1");
  EXPECT_EQ(run.at("entity").string(), "us");
  EXPECT_EQ(run.at("config").at("model").at("n_layer").integer(), 2);
  EXPECT_EQ(all[1].dump(), R"(["log",0,{"Timing/startup_time":1.5,"_timestamp":10.0}])");
  EXPECT_EQ(all[2].dump(), R"(["log",4,{"Loss/lossf":3.0,"Timing/startup_time":2.5}])");
  EXPECT_EQ(all[3].dump(), R"(["log",5,{"Loss/mfu":7.0}])");
  EXPECT_EQ(all[4].dump(), R"(["finish"])");
  EXPECT_EQ(outcome.out, "3 steps of " + (folder_ / "a").string() + " are sent\n");
}

TEST_F(WandbUpload, SaysWhereTheClientLeftWhatItDidNotSend) {
  ASSERT_EQ(lockstep(words("a", {"log.wandb=offline"})).code, 0);
  const io::ChildOutcome offline = upload({(folder_ / "a").string()}, "WANDB_MODE=offline");
  EXPECT_NE(offline.out.find(" are written and not sent\n  -> wandb sync wandb/here\n"), std::string::npos) << offline.out;
  const io::ChildOutcome disabled = upload({(folder_ / "a").string()}, "WANDB_MODE=disabled");
  EXPECT_EQ(disabled.out, "WANDB_MODE is disabled: nothing is sent\n");
}

TEST_F(WandbUpload, WhatKeepsItFromSending) {
  ASSERT_EQ(lockstep(words("a", {"log.wandb=offline"})).code, 0);
  const io::ChildOutcome disabled = upload({(folder_ / "a").string()}, "WANDB_DISABLED=true");
  EXPECT_EQ(disabled.status, 0);
  EXPECT_EQ(disabled.out, "WANDB_DISABLED is set: nothing is sent\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "told"));
  const io::ChildOutcome nowhere = upload({(folder_ / "nowhere").string()});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_NE(nowhere.err.find("there is no such file\n  -> train with log.wandb=offline"), std::string::npos) << nowhere.err;
  io::replace_file(folder_ / "a/wandb-history.jsonl", "{\"_step\": 1}\nnothing\n");
  const io::ChildOutcome torn = upload({(folder_ / "a").string()});
  EXPECT_EQ(torn.status, 1);
  EXPECT_NE(torn.err.find("wandb-history.jsonl:2: this is no row of a history"), std::string::npos) << torn.err;
  io::replace_file(folder_ / "a/wandb-history.jsonl", "{\"_step\": 1}\n");
  io::replace_file(folder_ / "client/wandb.py", "raise ImportError('no')\n");
  const io::ChildOutcome missing = upload({(folder_ / "a").string()});
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.err.find("W&B's client is not installed\n  -> pip install wandb"), std::string::npos) << missing.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "told"));
}

}  // namespace
}  // namespace lockstep::app
