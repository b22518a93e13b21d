#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "app/launch/folder_watch.h"
#include "app/launch/restart.h"
#include "checkpoint/find.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::launch {
namespace {

using Words = std::vector<std::string>;

const Words often{"checkpoint.seconds=30", "checkpoint.async=true"};  // what joins a training that says nothing of it

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words with(Words words, std::string more) {
  words.push_back(std::move(more));
  return words;
}

/// Only what is wrong with the words counts.
void check_words(const Words& words, const RestartFacts& facts, std::vector<Problem>& problems) {
  const Restart restart(words, facts, problems);
}

void save_checkpoint(const std::filesystem::path& run) {
  const std::filesystem::path folder = run / "checkpoints" / "step_5";
  io::make_folders(folder);
  checkpoint::Manifest manifest;
  manifest.step = 5;
  io::replace_file(folder / "manifest.json", checkpoint::manifest_text(manifest));
  io::replace_file(run / "config.toml", "");
}

TEST(LaunchRestart, ARetryLetsTheRanksFindWhatToGoOnFrom) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const Words words{"train", "--config", (folder / "a.toml").string(), "log.dir=" + run, "--dry-run"};
  io::replace_file(folder / "a.toml", "[train]\nmax_iters = 300\n");
  std::vector<Problem> problems;
  const Restart restart(words, {true, "now"}, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(restart.command(), with(words, often));
  EXPECT_EQ(restart.added_folder(), "");
  EXPECT_EQ(restart.retry(2), with(with(words, often), "train.init_from=auto"));
  save_checkpoint(run);
  EXPECT_EQ(restart.retry(2), with(with(words, often), "train.init_from=auto"));
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, ARunHasComeAsFarAsItSavedOrLogged) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  std::vector<Problem> problems;
  const Restart restart({"train", "log.dir=" + run}, {true, "now"}, problems), other({"eval", "x"}, {true, "now"}, problems);
  EXPECT_EQ(restart.reached_step(), 0);
  save_checkpoint(run);
  EXPECT_EQ(restart.reached_step(), 5);
  io::replace_file(run + "/metrics.jsonl", "{\"step\": 3}\n{\"step\": 70, \"eval\": true}\n{\"step\": 40}\n{\"st");
  EXPECT_EQ(restart.reached_step(), 70);
  io::replace_file(run + "/metrics.jsonl", "{\"step\": 8}\nnonsense\n");
  EXPECT_EQ(restart.reached_step(), 8);
  EXPECT_EQ(other.reached_step(), 0);
}

TEST(LaunchRestart, ATrainingThatResumesIsStartedAgainAsItWas) {
  const TempFolder folder;
  const Words words{"train", "log.dir=" + (folder / "run").string()};
  std::vector<Problem> problems;
  for (const char* from : {"resume", "auto"}) {
    const Words resumed = with(words, std::string("train.init_from=") + from);
    EXPECT_EQ(Restart(resumed, {true, "now"}, problems).retry(2), with(resumed, often));
  }
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, WeightsAreReadAgainUntilTheRunHasACheckpointOfItsOwn) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const Words words{"train", "log.dir=" + run, "train.init_from=" + (folder / "not_there").string()};
  std::vector<Problem> problems;
  const Restart restart(words, {true, "now"}, problems);
  EXPECT_EQ(restart.retry(2), with(words, often));
  save_checkpoint(run);
  EXPECT_EQ(restart.retry(2), with(with(words, often), "train.init_from=resume"));
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, AddsAFolderOnlyWhereARetryNeedsOne) {
  std::vector<Problem> problems;
  EXPECT_EQ(Restart({"train"}, {true, "now"}, problems).command(), with({"train"}, with(often, "log.dir=runs/now")));
  EXPECT_EQ(Restart({"train"}, {true, "now"}, problems).added_folder(), "runs/now");
  EXPECT_EQ(Restart({"train"}, {false, "now"}, problems).command(), with({"train"}, often));
  EXPECT_EQ(Restart({"train", "log.name=mine"}, {true, "now"}, problems).added_folder(), "");
  EXPECT_EQ(Restart({"eval", "--model", "x"}, {true, "now"}, problems).retry(2), (Words{"eval", "--model", "x"}));
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, OnFewerRanksAStepKeepsItsSamplesWhereThereIsNoCheckpointYet) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const Words words{"train", "log.dir=" + run, "model.batch_size=2", "optimizer.gas=3", "parallel.tp=2"};
  std::vector<Problem> problems;
  const Restart restart(words, {true, "now", 8}, problems);
  EXPECT_EQ(restart.retry(8), with(with(words, often), "train.init_from=auto"));
  EXPECT_EQ(restart.retry(4), with(with(words, often), Words{"optimizer.gas=6", "train.init_from=auto"}));
  try {
    restart.retry(10);
    FAIL() << "10 ranks";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("the run's global batch of 24 samples does not divide by 5 groups of ranks"),
              std::string::npos)
        << error.what();
  }
  save_checkpoint(run);
  EXPECT_EQ(restart.retry(4), with(with(words, often), "train.init_from=auto")) << "the checkpoint says it";
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, SavesOftenWhereTheSettingsDoNotSay) {
  std::vector<Problem> problems;
  const auto command = [&](const Words& words) { return Restart(words, {false, "now"}, problems).command(); };
  for (const Words& words : {Words{"train", "checkpoint.seconds=7"}, Words{"train", "train.eval_only=true"}, Words{"eval", "x"}})
    EXPECT_EQ(command(words), words);
  const Words stopping{"train", "checkpoint.async=false"}, served{"train", "train.backend=ps"};
  EXPECT_EQ(command(stopping), with(stopping, "checkpoint.seconds=30"));
  EXPECT_EQ(command(served), with(served, "checkpoint.seconds=30"));
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, ReadsNanoGptsWordsToo) {
  const TempFolder folder;
  const std::string run = (folder / "run").string(), file = (folder / "a.py").string();
  io::replace_file(file, "out_dir = '" + run + "'\ngradient_accumulation_steps = 6\n");
  std::vector<Problem> problems;
  EXPECT_EQ(Restart({"train", "--out_dir=" + run}, {true, "now"}, problems).added_folder(), "");
  const Restart restart({"train", file}, {true, "now", 3}, problems);
  EXPECT_EQ(restart.added_folder(), "");
  EXPECT_EQ(restart.retry(3), with({"train", file}, with(often, "train.init_from=auto")));
  EXPECT_TRUE(problems.empty());
  save_checkpoint(run);
  const Words resumed{"train", file, "--init_from=resume"};
  EXPECT_EQ(Restart(resumed, {true, "now"}, problems).retry(2), with(resumed, often));
  EXPECT_TRUE(problems.empty());
  check_words({"train", "--out_dir=" + run, "--max_itres=3"}, {true, "now"}, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message, "unknown option --max_itres=3");
}

TEST(LaunchRestart, ARunWhoseFolderHasGoneIsNotStartedAgain) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const FolderWatch watch(run), none("");
  EXPECT_NO_THROW(watch.demand()) << "it was not made yet";
  io::make_folder(run);
  std::filesystem::remove(run);
  EXPECT_NO_THROW(watch.demand()) << "a run that failed before it saved anything takes its folder along";
  save_checkpoint(run);
  const auto holds_it = [&] {
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      if (std::filesystem::read_symlink(entry, gone) == std::filesystem::canonical(run)) return true;
    }
    return false;
  };
  for (int i = 0; i < 3000 && !holds_it(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_NO_THROW(watch.demand());
  std::filesystem::rename(run, folder / "elsewhere");
  std::string said;
  try {
    watch.demand();
  } catch (const SystemError& error) {
    said = error.what();
  }
  EXPECT_EQ(said, run + ": this folder was renamed to " + (folder / "elsewhere").string() +
                      " while the run wrote into it; the run is not started again");
  EXPECT_NO_THROW(none.demand());
}

TEST(LaunchRestart, RefusesAFolderWithCheckpointsOfAnotherRun) {
  const TempFolder folder;
  save_checkpoint(folder.path());
  const std::string dir = "log.dir=" + folder.path().string();
  std::vector<Problem> problems;
  check_words({"train", dir}, {false, "now"}, problems);
  check_words({"train", dir, "train.init_from=resume"}, {true, "now"}, problems);
  EXPECT_TRUE(problems.empty());
  check_words({"train", dir}, {true, "now"}, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].message.find("has checkpoints of a run already"), std::string::npos);
}

TEST(LaunchRestart, TellsOfEveryWrongSetting) {
  std::vector<Problem> problems;
  check_words({"train", "train.max_iter=3", "model.n_layer=no", "--config=/no/such.toml"}, {false, "now"}, problems);
  EXPECT_EQ(problems.size(), 3U);
}

}  // namespace
}  // namespace lockstep::launch
