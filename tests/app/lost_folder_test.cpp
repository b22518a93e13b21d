// A run whose folder is renamed, removed or robbed of its files while it trains, as a user meets it.

#include <gtest/gtest.h>

#include <functional>

#include "app/train_command.h"
#include "checkpoint/find.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class LostFolder : public TrainCommand {
 protected:
  /// What an endless run says to what happens once it has saved something.
  Outcome train_through(const std::function<void()>& event, std::vector<std::string> more = {}) const {
    const Meanwhile other([&] { return checkpoint::has_checkpoints(folder_ / "run"); }, event);
    more.insert(more.begin(), {"train.max_iters=1000000", "train.eval_interval=1000000", "checkpoint.interval=2"});
    return lockstep(words("run", more));
  }
  void rename_it() const { fs::rename(folder_ / "run", folder_ / "elsewhere"); }
  /// That it ended, named its last checkpoint, and made nothing at the old path.
  void expect_end(const Outcome& outcome, const std::string& became) const {
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find((folder_ / "run").string() + ": this folder was " + became), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  }
};

TEST_F(LostFolder, ARenamedOneEndsTheRunWhichSaysWhereItsLastCheckpointIs) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"log.tensorboard=true", "log.trace=true", "log.wandb=offline"},
                                             {"checkpoint.async=true"},
                                             {"--ranks", "2", "train.threads=1", "memory.zero=2"},
                                             {"--ranks", "2", "train.threads=1", "checkpoint.async=true"},
                                             {"--ranks", "2", "train.threads=1", "train.backend=ps"}}) {
    const Outcome outcome = train_through([&] { rename_it(); }, more);
    expect_end(outcome, "renamed to " + (folder_ / "elsewhere").string());
    const std::string last = checkpoint::choose_checkpoint(folder_ / "elsewhere", "last").folder.string();
    EXPECT_NE(outcome.err.find("Its last checkpoint is " + last + "\n"), std::string::npos) << outcome.err << last;
    EXPECT_NE(outcome.err.find("log.dir=" + (folder_ / "elsewhere").string() + " train.init_from=resume"), std::string::npos);
    std::vector<std::string> resume{"train", "log.dir=" + (folder_ / "elsewhere").string(), "train.init_from=resume",
                                    "train.max_iters=1"};
    if (more[0] == "--ranks") resume.insert(resume.end(), {more[0], more[1]});
    const Outcome resumed = lockstep(resume);
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    fs::remove_all(folder_ / "elsewhere");
  }
}

TEST_F(LostFolder, ARenamedOneGetsTheLastStep) {
  const Meanwhile other([&] { return fs::exists(folder_ / "run/metrics.jsonl") && has_logged("run"); }, [&] { rename_it(); });
  const Outcome outcome = lockstep(words("run", {"train.max_iters=1000000", "train.eval_interval=1000000"}));
  expect_end(outcome, "renamed to " + (folder_ / "elsewhere").string());
  const std::string last = checkpoint::choose_checkpoint(folder_ / "elsewhere", "last").folder.string();
  EXPECT_NE(outcome.err.find("ends after step " + last.substr(last.rfind('_') + 1) + ". "), std::string::npos) << outcome.err;
}

TEST_F(LostFolder, ARemovedOneEndsTheRun) {
  const auto removed = [&] {  // a checkpoint that is being written there keeps its folder from going at once
    std::error_code busy;
    fs::remove_all(folder_ / "elsewhere", busy);
    return !busy;
  };
  const Outcome outcome = train_through([&] {
    rename_it();
    EXPECT_TRUE(support::comes_true(removed));
  });
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("this folder was re"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(LostFolder, AnotherFolderOfItsNameIsNotWrittenInto) {
  const Outcome outcome = train_through([&] {
    rename_it();
    fs::create_directory(folder_ / "run");
  });
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("renamed to " + (folder_ / "elsewhere").string()), std::string::npos) << outcome.err;
  EXPECT_TRUE(fs::is_empty(folder_ / "run"));
}

TEST_F(LostFolder, ALockThatWasDeletedIsTakenAgain) {
  const Outcome outcome = train_through(
      [&] {
        fs::remove(folder_ / "run/run.lock");
        EXPECT_TRUE(support::comes_true([&] { return fs::exists(folder_ / "run/run.lock"); }));
        io::replace_file(folder_ / "stop", "");
      },
      {"train.kill_file=" + (folder_ / "stop").string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("run.lock was deleted while the run went on; it is there again"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "run/run.lock"));
}

TEST_F(LostFolder, AResumeNeedsTheRunsSettings) {
  ASSERT_EQ(lockstep(words("run")).code, 0);
  fs::rename(folder_ / "run/config.toml", folder_ / "kept.toml");
  const std::vector<std::string> resume{"train", "log.dir=" + (folder_ / "run").string(), "train.init_from=resume"};
  const Outcome refused = lockstep(resume);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("run/config.toml is not there: it has the settings that the run of this folder goes on with"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(refused.out.find("Tiny Shakespeare"), std::string::npos) << refused.out;
  std::vector<std::string> given = resume;
  given.insert(given.end(), {"--config", folder_ / "kept.toml"});
  EXPECT_EQ(lockstep(given).code, 0);
  const Outcome nothing = lockstep({"train", "log.dir=" + (folder_ / "none").string(), "train.init_from=resume"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("none: there is no such folder"), std::string::npos) << nothing.err;
}

}  // namespace
}  // namespace lockstep::app
