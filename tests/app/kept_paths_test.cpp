// Paths among settings, which a resume finds again from anywhere.

#include "app/settings/kept_paths.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "app/settings/keys.h"
#include "app/train_command.h"

namespace lockstep::settings {
namespace {

namespace fs = std::filesystem;

/// Works in a folder as long as it lives.
class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  ~WorkingFolder() { fs::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  fs::path before_;
};

TEST(KeptPaths, EveryPathIsMadeWholeAndFoundAgainWhereTheTreeWasMoved) {
  const TempFolder temp;
  const WorkingFolder here(temp.path());
  const fs::path root = fs::current_path();
  for (const char* folder : {"old/runs/a", "old/given"}) fs::create_directories(folder);
  app::RunConfig config;
  for (const std::string_view name : path_keys()) {
    const Key* key = find_key(name);
    ASSERT_NE(key, nullptr) << name;
    const std::string value = std::string(name == "parallel.schedule" ? "file:" : "") + "old/given/" + std::string(name);
    ASSERT_FALSE(assign(config, *key, Json(value))) << name;
    io::replace_file("old/given/" + std::string(name), "");
  }
  app::RunConfig kept = with_whole_paths(config);
  const auto expect = [&](const fs::path& folder) {
    for (const std::string_view name : path_keys()) {
      const std::string whole = (name == "parallel.schedule" ? "file:" : "") + (folder / "given" / name).string();
      EXPECT_EQ(find_key(name)->get(kept).string(), whole);
    }
  };
  expect(root / "old");
  io::replace_file("old/runs/a/environment.json", "{\"run_folder\": \"" + (root / "old/runs/a").string() + "\"}");
  fs::rename("old", "new");
  find_kept_paths(kept, "new/runs/a");
  expect(root / "new");
}

TEST(KeptPaths, ATildeIsTheUsersFolderInEveryPathAndNowhereElse) {
  const std::string home = std::getenv("HOME");
  app::RunConfig config;
  std::vector<std::string_view> names(path_keys().begin(), path_keys().end());
  names.emplace_back("log.dir");
  for (const std::string_view name : names) {
    const std::string form = name == "parallel.schedule" ? "file:" : "";
    ASSERT_FALSE(assign(config, *find_key(name), Json(form + "~/a"))) << name;
    EXPECT_EQ(find_key(name)->get(config).string(), form + home + "/a");
    ASSERT_FALSE(assign(config, *find_key(name), Json(form + "b~/a"))) << name;
    EXPECT_EQ(find_key(name)->get(config).string(), form + "b~/a");
  }
  ASSERT_FALSE(assign(config, *find_key("sample.prompt"), Json("~/a")));
  EXPECT_EQ(config.sample.prompt, "~/a");
}

TEST(KeptPaths, WordsAreNoPathsAndADataSetKeepsItsFolder) {
  const app::RunConfig kept = with_whole_paths(app::RunConfig{});
  EXPECT_EQ(kept.train.init_from.kind, app::InitFrom::Kind::scratch);
  EXPECT_EQ(kept.parallel.schedule, "1f1b");
  EXPECT_EQ(kept.data.root_path, (fs::current_path() / "data").string());
  EXPECT_FALSE(kept.log.dir);
}

class KeptPathsCommand : public app::TrainCommand {
 protected:
  /// The words of a run "runs/a" in the working folder, and of one that cuts its two layers over two ranks.
  static std::vector<std::string> relative(std::vector<std::string> all) {
    for (std::string& word : all) {
      if (word.starts_with("data.dir=")) word = "data.dir=data";
      if (word.starts_with("log.dir=")) word = "log.dir=runs/a";
    }
    return all;
  }
  std::vector<std::string> in_stages(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--ranks", "2", "parallel.pp=2", "train.threads=1", "optimizer.gas=2", "train.max_iters=4"});
    return words("a", more);
  }
};

TEST_F(KeptPathsCommand, AResumeFindsItsDataFromAnyFolderAndInAMovedTree) {
  fs::create_directory(folder_ / "elsewhere");
  const WorkingFolder elsewhere(folder_ / "elsewhere");
  fs::create_directory(folder_ / "tree");
  fs::rename(folder_ / "data", folder_ / "tree/data");
  {
    const WorkingFolder tree(folder_ / "tree");
    ASSERT_EQ(app::lockstep(relative(words("a", {"train.max_iters=4"}))).code, 0);
  }
  const auto resume = [](const std::string& run, const std::string& steps) {
    return app::lockstep({"train", "log.dir=" + run, "train.init_from=resume", "train.max_iters=" + steps});
  };
  const app::Outcome again = resume("../tree/runs/a", "6");
  EXPECT_EQ(again.code, 0) << again.err;
  fs::rename(folder_ / "tree", folder_ / "moved");
  const app::Outcome moved = resume("../moved/runs/a", "8");
  EXPECT_EQ(moved.code, 0) << moved.err;
  const app::Outcome by_file = app::lockstep({"train", "--config", "../moved/runs/a/config.toml", "log.dir=../moved/runs/a",
                                              "train.init_from=resume", "train.max_iters=10"});
  EXPECT_EQ(by_file.code, 0) << by_file.err;
  EXPECT_TRUE(fs::exists(folder_ / "moved/runs/a/checkpoints/step_8"));
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));
}

TEST_F(KeptPathsCommand, ARunKeepsItsSchedulesTable) {
  const std::string table = (folder_ / "table.csv").string(), first = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  io::replace_file(table, first);
  ASSERT_EQ(app::lockstep(in_stages({"parallel.schedule=file:" + table})).code, 0);
  EXPECT_EQ(file("a/schedule.csv"), first);
  io::replace_file(table, "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
  const std::vector<std::string> resume{
      "train", "--ranks", "2", "log.dir=" + (folder_ / "a").string(), "train.init_from=resume", "train.max_iters=6"};
  const app::Outcome again = app::lockstep(resume);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(file("a/schedule.csv"), first);
  std::vector<std::string> other = resume;
  other.push_back("parallel.schedule=file:" + table);
  const app::Outcome refused = app::lockstep(other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("this is another table than the run began with, " + (folder_ / "a/schedule.csv").string()),
            std::string::npos)
      << refused.err;
}

}  // namespace
}  // namespace lockstep::settings
