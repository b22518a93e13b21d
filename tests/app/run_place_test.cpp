// Where runs, prepared text, models and sweeps may go, and where not, as a user meets it.

#include <gtest/gtest.h>

#include <algorithm>

#include "app/folder/folder_owner.h"
#include "app/train_command.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class RunPlaces : public TrainCommand {
 protected:
  std::string at(const std::string& path) const { return (folder_ / path).string(); }
  std::vector<std::string> paths() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) all.push_back(entry.path().string());
    std::ranges::sort(all);
    return all;
  }
  /// That the words are refused, with this text, and nothing is made.
  void expect_refusal(const std::vector<std::string>& words, const std::string& said) const {
    const std::vector<std::string> before = paths();
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << said;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << said << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find("\n  -> "), std::string::npos) << outcome.err;
    EXPECT_EQ(paths(), before) << said;
  }
  void expect_refusal(const std::string& run, const std::string& said) const { expect_refusal(words(run), said); }
};

TEST_F(RunPlaces, OwnersAreKnownByTheirFiles) {
  ASSERT_EQ(lockstep(words("run")).code, 0);
  EXPECT_EQ(owner_of(at("run")), FolderOwner::run);
  EXPECT_EQ(owner_of(at("run/checkpoints/step_8")), FolderOwner::checkpoint);
  EXPECT_EQ(owner_of(at("data")), FolderOwner::data);
  EXPECT_EQ(owner_of(at("")), FolderOwner::nobody);
  EXPECT_EQ(owner_of(at("none")), FolderOwner::nobody);
  fs::create_directory(at("copy"));
  fs::copy_file(at("run/config.toml"), at("copy/config.toml"));
  EXPECT_EQ(owner_of(at("copy")), FolderOwner::nobody) << "settings alone make no run";
  io::replace_file(at("copy/manifest.json"), "{\"name\": \"a page\"}");
  io::replace_file(at("copy/tokens.json"), "{\"colour\": \"red\"}");
  EXPECT_EQ(owner_of(at("copy")), FolderOwner::nobody) << "files of other programs";
}

TEST_F(RunPlaces, ARunInsideOfAnotherIsRefused) {
  ASSERT_EQ(lockstep(words("a")).code, 0);
  expect_refusal("a/checkpoints/step_8/inner", "it would lie in " + at("a/checkpoints/step_8") + ", which is a checkpoint");
  expect_refusal("a/checkpoints/inner", "it would lie in " + at("a") + ", which is a run");
  expect_refusal("a/inner/deep", "it would lie in " + at("a") + ", which is a run");
  expect_refusal("a/checkpoints/step_8", "this folder is a checkpoint already");
  fs::create_symlink(at("a"), at("link"));
  expect_refusal("link/inner", "it would lie in " + at("a") + ", which is a run");
}

TEST_F(RunPlaces, ARunInPreparedTextOrOnFilesIsRefused) {
  expect_refusal("data", "log.dir = " + at("data") + ": this folder is prepared text already");
  expect_refusal("data/run", "it would lie in " + at("data") + ", which is prepared text");
  expect_refusal("text.txt", "log.dir = " + at("text.txt") + ": it is a file, not a folder");
  expect_refusal({"train", "log.dir=/", "data.dir=" + at("data")}, "log.dir = /: this is the root of all files");
  fs::create_directory(at("mine"));
  io::replace_file(at("mine/config.toml"), "[train]\nmax_iters = 5\n");
  expect_refusal("mine", "a run would replace " + at("mine/config.toml") + ", which no run made");
  fs::create_directory(at("logs"));
  io::replace_file(at("logs/job.out"), "what a scheduler writes");
  EXPECT_EQ(lockstep(words("logs")).code, 0) << "other files may be there";
}

TEST_F(RunPlaces, AFolderOfRunsOrTextsIsNotOneItself) {
  ASSERT_EQ(lockstep(words("runs/a")).code, 0);
  expect_refusal("runs", "log.dir = " + at("runs") + ": it holds " + at("runs/a") + ", which is a run");
  expect_refusal({"prepare", at("text.txt"), "--out", at("")}, ": it holds ");
  EXPECT_EQ(lockstep(words("runs/b")).code, 0);
}

TEST_F(RunPlaces, NamesWithControlCharactersAreRefused) {
  expect_refusal("a\nb", "control characters in its name");
  expect_refusal({"train", "log.name=a\nb", "data.dir=" + at("data")}, "the folder \"runs/a\\nb\" has control characters");
  expect_refusal({"train", "log.dir=", "data.dir=" + at("data")}, "log.dir has no value: must be a text (not empty), or null");
  expect_refusal({"train", "log.name=../a", "data.dir=" + at("data")}, "log.name = ../a");
}

TEST_F(RunPlaces, OtherCommandsKeepOutOfWhatIsNotTheirs) {
  ASSERT_EQ(lockstep(words("a")).code, 0);
  const std::string step = "a/checkpoints/step_8", inside = "it would lie in " + at("a") + ", which is a run";
  expect_refusal({"prepare", at("text.txt"), "--out", at("a")}, "this folder is a run already");
  expect_refusal({"prepare", at("text.txt"), "--out", at("a/data")}, inside);
  expect_refusal({"prepare", at("text.txt"), "--out", at(step)}, "this folder is a checkpoint already");
  expect_refusal({"convert", at("a"), at("a/published")}, inside);
  expect_refusal({"convert", at("a"), at(step + "/published")}, "which is a checkpoint");
  expect_refusal({"convert", at("a"), at("data/published")}, "which is prepared text");
  for (const std::string& folder : {at("a"), at("data"), at(step)})
    expect_refusal({"sweep", "data.dir=" + at("data"), "model.batch_size=2,4", "--out", folder}, "already");
  expect_refusal({"sweep", "data.dir=" + at("data"), "model.batch_size=2,4", "--out", at("a/sweep")}, inside);
  expect_refusal({"train", "data.root_path=" + folder_.path().string(), "data.dataset=a", "data.file=" + at("text.txt"),
                  "log.dir=" + at("new")},
                 "the data set's folder " + at("a") + ": this folder is a run already");
}

TEST_F(RunPlaces, ADryRunTellsWhatWouldBeRefused) {
  const std::vector<std::string> before = paths();
  const Outcome dry = lockstep(words("data/run", {"--dry-run"}));
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("This run would be refused here: log.dir = " + at("data/run") + ": it would lie in " + at("data")),
            std::string::npos)
      << dry.out;
  EXPECT_EQ(lockstep(words("fine", {"--dry-run"})).out.find("would be refused"), std::string::npos);
  EXPECT_EQ(paths(), before);
}

TEST_F(RunPlaces, AFileThatWouldStopARunOrBeDeletedIsNamed) {
  io::replace_file(at("kill"), "");
  expect_refusal(words("a", {"train.kill_file=" + at("kill")}),
                 "it is there already, so the run would end before its first step");
  expect_refusal(words("a", {"train.save_file=" + at("text.txt")}), "it is there and not empty; a run deletes its save file");
  for (const char* name : {"metrics.jsonl", "config.toml", "checkpoints", "checkpoints/step_4/stop", "tensorboard"})
    expect_refusal(words("a", {"train.kill_file=" + at("a/") + name}), "the run itself writes a file of that name");
  expect_refusal(words("a", {"train.kill_file=" + at("b"), "train.save_file=" + at("./b")}), "are one file");
}

class DryRun : public TrainCommand {
 protected:
  /// Expects that the training is refused with a message and its remedy, and that the dry run tells both.
  void expect_both_tell(const std::vector<std::string>& more, const std::string& message) const {
    const Outcome run = lockstep(words("run", more));
    EXPECT_EQ(run.code, 2);
    const std::size_t at = run.err.find(message), remedy = run.err.find("\n  -> ", at);
    ASSERT_NE(remedy, std::string::npos) << run.err;
    const std::string told = run.err.substr(at, run.err.find('\n', remedy + 1) - at);
    std::vector<std::string> dry_words = words("dry", more);
    dry_words.emplace_back("--dry-run");
    const Outcome dry = lockstep(dry_words);
    EXPECT_EQ(dry.code, 0) << dry.err;
    EXPECT_NE(dry.out.find("This run would be refused here: "), std::string::npos) << dry.out;
    EXPECT_NE(dry.out.find(told), std::string::npos) << dry.out;
  }
};

TEST_F(DryRun, ReadsTheTextsVocabulary) { expect_both_tell({"model.vocab_size=10"}, "train.bin has tokens of a vocabulary of "); }

TEST_F(DryRun, ReadsWhatTheTextHas) {
  expect_both_tell({"data.documents=true"}, "data.documents = true: the vocabulary of ");
  expect_both_tell({"train.objective=dpo"}, "train.objective = dpo: ");
}

TEST_F(DryRun, ShowsTheRanksOfTheLayoutAndThatTheyAreToBeStarted) {
  expect_both_tell({"parallel.tp=2"}, "dp 1 x tp 2 x cp 1 x pp 1 = 2 ranks, but there is 1");
  expect_both_tell({"parallel.dp=2"}, "dp 2 x tp 1 x cp 1 x pp 1 = 2 ranks, but there is 1");
  expect_both_tell({"train.backend=ps"}, "parallel.servers = 1: of 1 rank none is left to train");
  const Outcome dry = lockstep(words("dry", {"parallel.tp=2", "--ranks", "2", "--dry-run"}));
  EXPECT_EQ(dry.out.find("would be refused"), std::string::npos) << dry.out;
}

}  // namespace
}  // namespace lockstep::app
