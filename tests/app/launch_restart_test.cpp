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

Words with(Words words, std::string more) {
  words.push_back(std::move(more));
  return words;
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
  EXPECT_EQ(restart.command(), words);
  EXPECT_EQ(restart.added_folder(), "");
  EXPECT_EQ(restart.retry(), with(words, "train.init_from=auto"));
  save_checkpoint(run);
  EXPECT_EQ(restart.retry(), with(words, "train.init_from=auto"));
  for (const char* from : {"resume", "auto"}) {
    const Words resumed = with(words, std::string("train.init_from=") + from);
    EXPECT_EQ(Restart(resumed, {true, "now"}, problems).retry(), resumed);
  }
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, WeightsAreReadAgainUntilTheRunHasACheckpointOfItsOwn) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const Words words{"train", "log.dir=" + run, "train.init_from=" + (folder / "not_there").string()};
  std::vector<Problem> problems;
  const Restart restart(words, {true, "now"}, problems);
  EXPECT_EQ(restart.retry(), words);
  save_checkpoint(run);
  EXPECT_EQ(restart.retry(), with(words, "train.init_from=resume"));
  EXPECT_TRUE(problems.empty());
}

TEST(LaunchRestart, AddsAFolderOnlyWhereARetryNeedsOne) {
  std::vector<Problem> problems;
  EXPECT_EQ(Restart({"train"}, {true, "now"}, problems).command(), (Words{"train", "log.dir=runs/now"}));
  EXPECT_EQ(Restart({"train"}, {true, "now"}, problems).added_folder(), "runs/now");
  EXPECT_EQ(Restart({"train"}, {false, "now"}, problems).command(), Words{"train"});
  EXPECT_EQ(Restart({"train", "log.name=mine"}, {true, "now"}, problems).added_folder(), "");
  EXPECT_EQ(Restart({"eval", "--model", "x"}, {true, "now"}, problems).retry(), (Words{"eval", "--model", "x"}));
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
  EXPECT_EQ(restart.retry(), (Words{"train", file, "train.init_from=auto"}));
  EXPECT_TRUE(problems.empty());
  save_checkpoint(run);
  const Words resumed{"train", file, "--init_from=resume"};
  EXPECT_EQ(Restart(resumed, {true, "now"}, problems).retry(), resumed);
  EXPECT_TRUE(problems.empty());
  Restart({"train", "--out_dir=" + run, "--max_itres=3"}, {true, "now"}, problems);
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
  Restart({"train", dir}, {false, "now"}, problems);
  Restart({"train", dir, "train.init_from=resume"}, {true, "now"}, problems);
  EXPECT_TRUE(problems.empty());
  Restart({"train", dir}, {true, "now"}, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].message.find("has checkpoints of a run already"), std::string::npos);
}

TEST(LaunchRestart, TellsOfEveryWrongSetting) {
  std::vector<Problem> problems;
  Restart({"train", "train.max_iter=3", "model.n_layer=no", "--config=/no/such.toml"}, {false, "now"}, problems);
  EXPECT_EQ(problems.size(), 3U);
}

}  // namespace
}  // namespace lockstep::launch
