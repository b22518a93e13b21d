#include "checkpoint/find.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <limits>

#include "checkpoint/retention.h"
#include "checkpoint/sample.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

/// While it lives, this thread meets files as a user without rights does.
class AsNobody {
 public:
  AsNobody() : before_(setfsuid(nobody)) {}
  ~AsNobody() { setfsuid(static_cast<uid_t>(before_)); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  static bool possible() { return getuid() != 0 || setfsuid(nobody) == static_cast<int>(nobody); }

 private:
  static constexpr uid_t nobody = 65534;
  int before_;
};

class Find : public testing::Test {
 protected:
  void add(std::int64_t step, std::optional<double> loss) {
    save(run.path(), sample.content(), sample_manifest(step, loss), team);
  }
  void damage(std::int64_t step) {
    const fs::path path = run.path() / "checkpoints" / folder_name(step) / "manifest.json";
    io::replace_file(path, io::read_file(path) + " ");
  }
  std::int64_t chosen(std::string_view which) { return choose_checkpoint(run.path(), which).manifest.step; }
  std::string complaint(const fs::path& path, std::string_view which) {
    return complaint_of([&] { choose_checkpoint(path, which); });
  }

  static std::string failure(const std::function<void()>& body) {
    try {
      body();
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

  TempFolder run;
  Team team{1};
  Sample sample;
};

TEST_F(Find, TheLastTheBestAndANumber) {
  add(9, 3.0);
  add(10, 2.0);
  add(100, 2.5);
  EXPECT_EQ(chosen("last"), 100);
  EXPECT_EQ(chosen("best"), 10);
  EXPECT_EQ(chosen("9"), 9);
  const fs::path folder = run.path() / "checkpoints" / "step_9";
  EXPECT_EQ(choose_checkpoint(folder, "last").folder, folder);
  EXPECT_EQ(choose_checkpoint(run.path() / "checkpoints", "last").manifest.step, 100);
  EXPECT_TRUE(choose_checkpoint(run.path(), "last").passed_over.empty());
}

TEST_F(Find, ARunMayHaveAManifestOfItsOwn) {
  add(3, 1.0);
  io::replace_file(run.path() / "manifest.json", "{}");
  EXPECT_EQ(chosen("last"), 3);
}

TEST_F(Find, TheBestIsTheLastWhenNothingWasMeasured) {
  add(1, {});
  add(2, {});
  EXPECT_EQ(chosen("best"), 2);
}

TEST_F(Find, PassesOverTheDamagedAndSaysSo) {
  add(1, 1.0);
  add(2, 2.0);
  damage(2);
  const Choice choice = choose_checkpoint(run.path(), "last");
  EXPECT_EQ(choice.manifest.step, 1);
  ASSERT_EQ(choice.passed_over.size(), 1u);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "step_2", choice.passed_over[0]);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "damaged", complaint(run.path(), "2"));
  damage(1);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "every checkpoint is damaged", complaint(run.path(), "last"));
}

TEST_F(Find, PassesOverWhatIsCutOffOrLacksAFile) {
  for (const int step : {1, 2, 3}) add(step, 1.0 * step);
  const fs::path folder = run.path() / "checkpoints", cut = folder / "step_3" / optimizer_file,
                 gone = folder / "step_2" / model_file;
  fs::resize_file(cut, fs::file_size(cut) - 1);
  fs::remove(gone);
  const Choice choice = choose_checkpoint(run.path(), "last");
  EXPECT_EQ(choice.manifest.step, 1);
  ASSERT_EQ(choice.passed_over.size(), 2u);
  EXPECT_EQ(choice.passed_over[0], gone.string() + ": No such file or directory");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, cut.string() + ": the file has ", choice.passed_over[1]);
  EXPECT_EQ(chosen("3"), 3) << "its reader says what is wrong";
  EXPECT_EQ(apply_retention(folder, 1), std::vector<std::int64_t>{}) << "the one that is whole is kept";
  EXPECT_EQ(chosen("best"), 1);
}

TEST_F(Find, AFolderOfACheckpointIsThatOneAlone) {
  add(9, 3.0);
  add(10, 2.0);
  const fs::path folder = run.path() / "checkpoints" / "step_9";
  EXPECT_EQ(choose_checkpoint(folder, "9").manifest.step, 9);
  EXPECT_EQ(choose_checkpoint(folder, "best").manifest.step, 9);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "this is the checkpoint of step 9, not of step 10", complaint(folder, "10"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"first\" does not say which", complaint(folder, "first"));
}

TEST_F(Find, AStepWithoutAManifestIsDamaged) {
  add(1, 1.0);
  fs::create_directories(run.path() / "checkpoints" / "step_7");
  fs::create_directories(run.path() / "checkpoints" / "step_x");
  io::replace_file(run.path() / "checkpoints" / "step_x" / "manifest.json", "{}");
  EXPECT_EQ(list_checkpoints(run.path()).size(), 2u);
  const Choice choice = choose_checkpoint(run.path(), "last");
  EXPECT_EQ(choice.manifest.step, 1);
  ASSERT_EQ(choice.passed_over.size(), 1u);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "step_7/manifest.json", choice.passed_over[0]);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "step_7 away", complaint(run.path(), "7"));
}

// A folder that leads in a circle is as unreadable as one without permission, for root too.
TEST_F(Find, AFolderThatCannotBeReadIsNoEmptyOne) {
  EXPECT_FALSE(has_checkpoints(run.path()));
  fs::create_directory_symlink("checkpoints", run.path() / "checkpoints");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cannot list the checkpoints in", failure([&] { has_checkpoints(run.path()); }));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cannot list the checkpoints in",
                      failure([&] { choose_checkpoint(run.path(), "last"); }));
}

TEST_F(Find, WithoutPermissionTheReasonIsSaid) {
  add(1, 1.0);
  fs::permissions(run.path() / "checkpoints", fs::perms::none);
  {
    const AsNobody nobody;
    if (!AsNobody::possible()) GTEST_SKIP() << "this process may not give up its rights";
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "Permission denied", complaint(run.path(), "last"));
  }
  fs::permissions(run.path() / "checkpoints", fs::perms::owner_all);
}

TEST_F(Find, WhatIsDamagedIsACheckpointToo) {
  EXPECT_FALSE(has_checkpoints(run.path() / "missing"));
  add(1, 1.0);
  damage(1);
  EXPECT_TRUE(has_checkpoints(run.path()));
  fs::remove(run.path() / "checkpoints" / "step_1" / "manifest.json");
  EXPECT_TRUE(has_checkpoints(run.path()));
}

TEST_F(Find, SaysWhatThereIs) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "there is no such folder", complaint(run.path() / "missing", "last"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "this folder is empty", complaint(run.path(), "last"));
  io::replace_file(run.path() / "something.txt", "else");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "it is no folder", complaint(run.path() / "something.txt", "last"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "this folder holds something.txt", complaint(run.path(), "last"));
  io::replace_file(run.path() / "model.pt", "PK\3\4archive/data.pkl");
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "it is no folder but a PyTorch file", complaint(run.path() / "model.pt", "last"));
  add(1, 1.0);
  add(5, 1.0);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "there are those of steps 1, 5", complaint(run.path(), "3"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"first\" does not say which", complaint(run.path(), "first"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\"-1\" does not say which", complaint(run.path(), "-1"));
}

TEST(BestOf, LossesThatAreNoNumbersAreNeverTheBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(best_of({nan, 2.0, 1.0, nan, 1.0}), 2U);
  EXPECT_EQ(best_of({std::nullopt, 3.0}), 1U);
  EXPECT_EQ(best_of({nan, std::nullopt}), std::nullopt);
}

}  // namespace
}  // namespace lockstep::checkpoint
