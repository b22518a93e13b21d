// A run folder belongs to one run, as a user meets it.

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <optional>

#include "app/folder/run_lock.h"
#include "app/folder/run_name.h"
#include "app/train_command.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class RunFolderCommand : public TrainCommand {
 protected:
  /// Every file of a folder, by its path.
  std::map<std::string, std::string> files(const std::string& name) const {
    std::map<std::string, std::string> all;
    if (!fs::exists(folder_ / name)) return all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / name)) {
      if (entry.is_regular_file()) all[entry.path().string()] = io::read_file(entry.path());
    }
    return all;
  }
  /// That the words are refused, with this text, and the run's folder stays as it is.
  void expect_refusal(const std::string& run, std::vector<std::string> more, const std::string& said) const {
    const auto before = files(run);
    const Outcome outcome = lockstep(words(run, std::move(more)));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    EXPECT_TRUE(files(run) == before) << said;
  }
};

TEST_F(RunFolderCommand, ANewRunIsRefusedWhereOneIs) {
  ASSERT_EQ(lockstep(words("a")).code, 0);
  ASSERT_EQ(lockstep(words("b")).code, 0);
  expect_refusal("a", {}, "has checkpoints of a run already");
  expect_refusal("a", {"--ranks", "2"}, "train.init_from=resume");
  expect_refusal("a", {"train.init_from=" + (folder_ / "b").string()}, "has checkpoints of a run already");
  for (const auto& found : checkpoint::list_checkpoints(folder_ / "a"))
    io::replace_file(found.folder / "manifest.json", "damaged");
  expect_refusal("a", {}, "has checkpoints of a run already");
  expect_refusal("a", {"train.init_from=auto"}, "every checkpoint is damaged");
}

TEST_F(RunFolderCommand, ARefusedCommandLeavesItAsItWas) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  expect_refusal("a", {"train.init_from=resume", "optimizer.name=sgd"}, "optimizer.name");
  expect_refusal("a", {"train.init_from=resume", "data.dir=/nowhere"}, "/nowhere");
  const fs::path model = folder_ / "a/checkpoints/step_4/model.safetensors";
  fs::resize_file(model, fs::file_size(model) - 1);
  expect_refusal("a", {"train.init_from=resume", "train.max_iters=9"}, "truncated or replaced");
  expect_refusal("new", {"data.dir=/nowhere"}, "/nowhere");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(RunFolderCommand, ALivingRunHasItsFolderToItself) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  {
    const RunLock lock(folder_ / "a");
    for (const char* from : {"scratch", "resume", "auto"})
      expect_refusal("a", {std::string("train.init_from=") + from}, "another run is writing into this folder");
    EXPECT_EQ(lockstep({"generate", "--model", folder_ / "a", "--prompt", "the", "--tokens", "2"}).code, 0);
  }
  EXPECT_EQ(lockstep(words("a", {"train.init_from=resume"})).code, 0);
}

TEST_F(RunFolderCommand, MetricsOfARunWithoutACheckpointAreKept) {
  fs::create_directories(folder_ / "a");
  for (const char* text : {"first\n", "second\n"}) {
    io::replace_file(folder_ / "a/metrics.jsonl", text);
    const Outcome outcome = lockstep(words("a"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("metrics of an earlier run"), std::string::npos) << outcome.out;
    EXPECT_EQ(losses("a").size(), 4U);
    fs::remove_all(folder_ / "a/checkpoints");
  }
  EXPECT_EQ(file("a/metrics.1.jsonl"), "first\n");
  EXPECT_EQ(file("a/metrics.2.jsonl"), "second\n");
}

TEST_F(RunFolderCommand, AutoStartsOrGoesOn) {
  ASSERT_EQ(lockstep(words("whole", {"train.log_interval=1"})).code, 0);
  for (const std::string ranks : {"1", "2"}) {
    const std::string run = "parts" + ranks;
    for (const char* steps : {"3", "8", "8"}) {
      const Outcome outcome = lockstep(
          words(run, {"train.init_from=auto", "--ranks", ranks, "model.batch_size=" + std::to_string(4 / std::stoi(ranks)),
                      "train.log_interval=1", std::string("train.max_iters=") + steps}));
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_NE(outcome.out.find("Run folder:"), std::string::npos);
    }
    EXPECT_EQ(file(run + "/config.toml").find("init_from"), std::string::npos) << "how it was begun: from scratch";
    EXPECT_EQ(losses(run).size(), losses("whole").size());
  }
  EXPECT_TRUE(file("whole/checkpoints/step_8/model.safetensors") == file("parts1/checkpoints/step_8/model.safetensors"));
  const Outcome nameless = lockstep({"train", "train.init_from=auto"});
  EXPECT_EQ(nameless.code, 2);
  EXPECT_NE(nameless.err.find("train.init_from = auto does not say which run"), std::string::npos) << nameless.err;
}

// Many jobs that start in the same second have a folder each.
TEST_F(RunFolderCommand, NamesMadeUpDoNotCollide) { EXPECT_NE(run_name_from_time(), run_name_from_time()); }

TEST_F(RunFolderCommand, ATornLastLineOfTheMetricsIsRepaired) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=4"})).code, 0);
  const std::string whole = file("a/metrics.jsonl");
  io::replace_file(folder_ / "a/metrics.jsonl", whole + "{\"step\": 5, \"lo");
  const Outcome outcome = lockstep(words("a", {"train.init_from=resume"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("cut off in the middle"), std::string::npos) << outcome.out;
  EXPECT_EQ(file("a/metrics.jsonl").substr(0, whole.size()), whole);
  EXPECT_EQ(losses("a").size(), 4U);
}

class LastStep : public TrainCommand {
 protected:
  std::vector<std::int64_t> logged(const std::string& run) const {
    std::vector<std::int64_t> steps;
    for (const Json& line : lines(run)) steps.push_back(line.at("step").integer());
    return steps;
  }
  std::string resume(const std::string& run, const std::string& setting) const {
    const Outcome outcome =
        lockstep({"train", "log.dir=" + (folder_ / run).string(), "train.init_from=resume", setting, "sample.tokens=0"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out + outcome.err;
  }
};

TEST_F(LastStep, IsLoggedWhateverTheInterval) {
  ASSERT_EQ(lockstep(words("a", {"train.max_iters=7", "train.log_interval=3", "optimizer.gas=2"})).code, 0);
  EXPECT_EQ(logged("a"), (std::vector<std::int64_t>{3, 6, 7}));
  const Json noise = lines("a").back().at("noise");
  EXPECT_EQ(noise.at("steps").integer(), 1) << "of the steps since the line before";
  resume("a", "train.max_iters=9");
  EXPECT_EQ(logged("a"), (std::vector<std::int64_t>{3, 6, 7, 9}));
}

TEST_F(LastStep, IsLoggedWhenARunIsStopped) {
  const auto step_taken = [this] { return has_logged("ranks"); };
  std::optional<Meanwhile> sender(std::in_place, step_taken, [] { std::raise(SIGTERM); });
  const Outcome outcome = lockstep(words("ranks", {"train.max_iters=1000000", "train.eval_interval=1000000", "--ranks", "2",
                                                   "train.log_interval=7", "train.threads=1"}));
  sender.reset();
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  const auto saved = checkpoint::list_checkpoints(folder_ / "ranks");
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(logged("ranks").back(), saved.back().manifest->step);
}

TEST_F(LastStep, AResumeBehindItSaysSo) {
  ASSERT_EQ(lockstep(words("a")).code, 0);
  EXPECT_NE(resume("a", "train.max_iters=3")
                .find("train.max_iters = 3: the run has taken 8 steps, so none is left; a larger train.max_iters trains on"),
            std::string::npos);
  EXPECT_EQ(resume("a", "train.max_iters=9").find("none is left"), std::string::npos);
  ASSERT_EQ(lockstep(words("epochs", {"train.max_epochs=1"})).code, 0);
  EXPECT_NE(resume("epochs", "train.max_epochs=1").find("train.max_epochs = 1: the run has taken "), std::string::npos);
}

// A save file may ask for a checkpoint before the first step: then that is what the run goes on from.
TEST_F(LastStep, AStopBeforeTheFirstStepTellsWhetherSomethingIsSaved) {
  const std::string save = (folder_ / "save").string();
  const std::vector<std::string> stop{"train.max_minutes=0.0000001", "train.save_file=" + save};
  io::replace_file(save, "");
  const Outcome first = lockstep(words("a", stop));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a/checkpoints/step_0/manifest.json"));
  for (const std::string& told : {first.out, resume("a", stop[0])}) {
    EXPECT_NE(told.find("is over; everything is saved. Go on with:"), std::string::npos) << told;
    EXPECT_EQ(told.find("nothing to save"), std::string::npos) << told;
  }
}

}  // namespace
}  // namespace lockstep::app
