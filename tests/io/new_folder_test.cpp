#include "io/new_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/error.h"
#include "support/patience.h"
#include "support/temp_folder.h"

namespace lockstep::io {
namespace {
namespace fs = std::filesystem;

std::size_t entries(const Path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(NewFolder, AppearsWholeAtCommit) {
  TempFolder temp;
  const Path target = temp.path() / "step_1";
  NewFolder folder(target);
  EXPECT_EQ(folder.path(), NewFolder::path_until_commit(target));
  replace_file(folder.path() / "a", "content");
  EXPECT_FALSE(fs::exists(target));
  folder.commit();
  EXPECT_EQ(read_file(target / "a"), "content");
  EXPECT_EQ(entries(temp.path()), 1u);
  EXPECT_THROW(folder.commit(), BrokenRule);
}

TEST(NewFolder, VanishesWhenNeverCommitted) {
  TempFolder temp;
  {
    NewFolder folder(temp.path() / "step_1");
    replace_file(folder.path() / "a", "content");
  }
  EXPECT_EQ(entries(temp.path()), 0u);
}

TEST(NewFolder, TakesThePlaceOfAnOlderOne) {
  TempFolder temp;
  const Path target = temp.path() / "step_1";
  for (const char* content : {"old", "new"}) {
    NewFolder folder(target);
    replace_file(folder.path() / content, content);
    folder.commit();
  }
  EXPECT_FALSE(fs::exists(target / "old"));
  EXPECT_EQ(read_file(target / "new"), "new");
  EXPECT_EQ(entries(temp.path()), 1u);
}

TEST(NewFolder, RefusesWhatALivingProcessIsMaking) {
  TempFolder temp;
  NewFolder folder(temp.path() / "step_1");
  EXPECT_THROW(NewFolder(temp.path() / "step_1"), UserError);
  settle_folders(temp.path());
  EXPECT_TRUE(fs::exists(folder.path()));
}

// Who cleans up must not take a folder for a dead one's that was made a moment ago and is not locked yet.
TEST(NewFolder, IsNotDeletedByWhoCleansUpMeanwhile) {
  TempFolder temp;
  const Path parent = temp.path() / "checkpoints";
  make_folder(parent);
  std::jthread cleaner([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) settle_folders(parent);
  });
  for (int i = 0; i < 200; ++i) {
    NewFolder folder(parent / "step_1");
    replace_file(folder.path() / "a", "content");
    folder.commit();
    ASSERT_EQ(read_file(parent / "step_1" / "a"), "content");
    remove_folder(parent / "step_1");
  }
}

TEST(NewFolder, WhatDeadProcessesLeftIsDeleted) {
  TempFolder temp;
  for (const bool again : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      const NewFolder folder(temp.path() / "step_1");
      replace_file(folder.path() / "a", "content");
      raise(SIGKILL);
    }
    ASSERT_TRUE(WIFSIGNALED(support::status_of(child)));
    EXPECT_EQ(entries(temp.path()), 1u);
    if (again) {
      NewFolder folder(temp.path() / "step_1");  // the same name may be made again
      EXPECT_EQ(entries(folder.path()), 0u);
    } else {
      settle_folders(temp.path());
    }
    EXPECT_EQ(entries(temp.path()), 0u);
  }
}

TEST(NewFolder, DeletesOnlyItsOwnKindOfRemains) {
  TempFolder temp;
  for (const char* name : {"step_1", "step_2.partial", ".hidden", ".x.removed", ".y.partial"}) make_folders(temp.path() / name);
  replace_file(temp.path() / ".file.partial", "a file is none of ours");
  settle_folders(temp.path());
  EXPECT_EQ(entries(temp.path()), 4u);
  EXPECT_FALSE(fs::exists(temp.path() / ".x.removed"));
  EXPECT_FALSE(fs::exists(temp.path() / ".y.partial"));
  EXPECT_NO_THROW(settle_folders(temp.path() / "missing"));
}

TEST(NewFolder, FailsWhereAFileIsInTheWay) {
  TempFolder temp;
  replace_file(temp.path() / "file", "in the way");
  EXPECT_THROW(NewFolder(temp.path() / "file" / "step_1"), UserError);
}

TEST(RemoveFolder, DeletesAllOrSaysWhy) {
  TempFolder temp;
  make_folders(temp.path() / "step_1" / "inner");
  replace_file(temp.path() / "step_1" / "inner" / "a", "content");
  make_folders(temp.path() / ".step_1.removed" / "earlier");
  remove_folder(temp.path() / "step_1");
  EXPECT_EQ(entries(temp.path()), 0u);
  EXPECT_THROW(remove_folder(temp.path() / "step_1"), UserError);
}

}  // namespace
}  // namespace lockstep::io
