// What a power cut may leave of a folder, by the calls of small bodies of code.

#include "faults/inject/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "faults/in_memory.h"
#include "faults/trace/tracer.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::faults {
namespace {

class PowerCut : public testing::Test {
 protected:
  static void SetUpTestSuite() { keep_folders_in_memory(); }
  void SetUp() override {
    if (const std::string why = why_not_traced(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_EQ(::chdir(temp_.path().c_str()), 0);
    io::replace_file("a", "old");
  }
  void TearDown() override { ASSERT_EQ(::chdir("/"), 0); }
  /// All states that a power cut may leave, now or before.
  std::vector<Tree> states_of(const std::function<void()>& change) const {
    const Path folder = std::filesystem::canonical(temp_.path());
    Disk disk(read_tree(folder), folder);
    const auto body = [&] {
      change();
      return 0;
    };
    const Outcome outcome = trace(body, {.folder = folder, .fault = {}, .records = true});
    EXPECT_EQ(outcome.code, 0);
    for (const Call& call : outcome.calls) disk.add(call);
    std::vector<Tree> states;
    for (const Cut& cut : disk.cuts()) states.push_back(disk.state(cut));
    EXPECT_TRUE(has(states, read_tree(folder))) << "undisturbed";
    return states;
  }
  static bool has(const std::vector<Tree>& states, const Tree& state) {
    return std::find(states.begin(), states.end(), state) != states.end();
  }
  TempFolder temp_;
};

TEST_F(PowerCut, ARenameWithoutSyncLosesTheData) {
  const std::vector<Tree> states = states_of([] {
    io::File::create("new").write_at(0, std::as_bytes(std::span("xyz", 3)));
    std::rename("new", "a");
  });
  EXPECT_TRUE(has(states, {{"a", "old"}}));
  EXPECT_TRUE(has(states, {{"a", "xyz"}}));
  EXPECT_TRUE(has(states, {{"a", std::string(3, '\0')}}));
}

TEST_F(PowerCut, AReplacedFileIsTheOldOneOrTheNew) {
  for (const Tree& state : states_of([] { io::replace_file("a", "xyz"); })) {
    ASSERT_TRUE(state.contains("a"));
    EXPECT_TRUE(state.at("a") == "old" || state.at("a") == "xyz");
  }
}

TEST_F(PowerCut, ASyncedFileIsLostWithItsName) {
  const std::vector<Tree> states = states_of([] {
    ::mkdir("folder", 0777);
    io::File file = io::File::create("folder/b");
    file.write_at(0, std::as_bytes(std::span("xyz", 3)));
    file.sync();
    io::sync_folder("folder");
  });
  EXPECT_TRUE(has(states, {{"a", "old"}, {"folder/", ""}, {"folder/b", "xyz"}}));
  EXPECT_EQ(states.front(), (Tree{{"a", "old"}}));
  EXPECT_FALSE(has(states, {{"folder/", ""}})) << "what was there stays";
}

// Once it has returned, a power cut takes nothing of it away: the folders above are synced too.
TEST_F(PowerCut, MadeFoldersLast) {
  const std::vector<Tree> states = states_of([] {
    io::make_folders("x/y");
    io::replace_file("x/y/b", "xyz");
  });
  const auto with_file = std::count_if(states.begin(), states.end(), [](const Tree& state) { return state.contains("x/y/b"); });
  EXPECT_GT(with_file, 0);
  EXPECT_EQ(states.back(), (Tree{{"a", "old"}, {"x/", ""}, {"x/y/", ""}, {"x/y/b", "xyz"}}));
}

TEST_F(PowerCut, ExchangedAndRemovedNamesChangeTogether) {
  io::replace_file("b", "other");
  const std::vector<Tree> states = states_of([] {
    ::renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE);
    ::unlink("a");
  });
  EXPECT_EQ(states.size(), 3U);
  EXPECT_TRUE(has(states, {{"a", "old"}, {"b", "other"}}));
  EXPECT_TRUE(has(states, {{"a", "other"}, {"b", "old"}}));
  EXPECT_TRUE(has(states, {{"b", "old"}}));
}

}  // namespace
}  // namespace lockstep::faults
