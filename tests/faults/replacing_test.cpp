// A folder that takes the place of another, at every fault: one of the two is always there.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/error.h"
#include "checkpoint/find.h"
#include "faults/in_memory.h"
#include "faults/inject/plan.h"
#include "io/new_folder.h"
#include "support/temp_folder.h"

namespace lockstep::faults {
namespace {
namespace fs = std::filesystem;

int cannot_exchange(const Call& call) {
  return call.kind->name == "renameat2" && (call.flags & RENAME_EXCHANGE) != 0 ? EINVAL : 0;
}

class Replacing : public testing::Test {
 protected:
  static void SetUpTestSuite() { keep_folders_in_memory(); }
  void SetUp() override {
    if (const std::string why = why_not_traced(); !why.empty()) GTEST_SKIP() << why;
    set_up();
  }
  void set_up() const {
    fs::remove_all(folder());
    write_tree({{"checkpoints/", ""}, {"checkpoints/step_1/", ""}, {"checkpoints/step_1/manifest.json", "old"}}, folder());
  }
  Path folder() const { return fs::canonical(temp_.path()) / "run"; }
  Path step() const { return folder() / "checkpoints/step_1"; }
  int replace() const {
    try {
      io::NewFolder made(step());
      io::replace_file(made.path() / "manifest.json", "new");
      made.commit();
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  }
  /// What the only checkpoint that is found holds.
  std::string found() const {
    const auto all = checkpoint::list_checkpoints(folder());
    return all.size() == 1 && all[0].step == 1 ? io::read_file(all[0].folder / "manifest.json") : "none";
  }
  void expect_old_or_new() const {
    EXPECT_TRUE(found() == "old" || found() == "new") << found();
    EXPECT_TRUE(checkpoint::has_checkpoints(folder()));
    const std::string before = found();
    io::settle_folders(folder() / "checkpoints");
    EXPECT_EQ(found(), before);
    EXPECT_EQ(read_tree(folder()).size(), 3U) << "nothing else is left";
    ASSERT_EQ(replace(), 0);
    EXPECT_EQ(found(), "new");
  }
  void at_every_fault(const std::function<int(const Call&)>& refused) {
    const TraceOptions rehearsal{.folder = folder(), .fault = {}, .refused = refused, .records = true};
    const Tree before = read_tree(folder());
    const Outcome outcome = trace([&] { return replace(); }, rehearsal);
    ASSERT_EQ(outcome.code, 0);
    EXPECT_EQ(found(), "new");
    for (const Fault& fault : all_faults(outcome.calls)) {
      SCOPED_TRACE(fault.text() + " at " + outcome.calls[fault.at - 1].text(folder()));
      set_up();
      const int code = trace([&] { return replace(); }, {.folder = folder(), .fault = fault, .refused = refused}).code;
      EXPECT_EQ(code == -SIGKILL, fault.act == Act::kill);
      if (fault.act == Act::shorten || fault.error == EINTR) {
        EXPECT_EQ(code, 0);
      }
      expect_old_or_new();
    }
    Disk disk(before, folder());
    for (const Call& call : outcome.calls) disk.add(call);
    for (const Cut& cut : disk.cuts()) {
      SCOPED_TRACE(cut.text());
      fs::remove_all(folder());
      write_tree(disk.state(cut), folder());
      expect_old_or_new();
    }
  }
  /// Replaces while, when it is about to make its first call of this kind on the hidden folder, another process clears up.
  Outcome cleared_up_at(std::string_view name) const {
    bool done = false;
    const auto interfere = [&](const Call& call) {
      if (!done && call.kind->name == name && call.path == io::NewFolder::path_until_commit(step())) {
        done = true;
        io::settle_folders(folder() / "checkpoints");
      }
      return 0;
    };
    return trace([&] { return replace(); }, {.folder = folder(), .fault = {}, .refused = interfere});
  }
  TempFolder temp_;
};

TEST_F(Replacing, OneIsThereAtEveryFault) { at_every_fault(nullptr); }

TEST_F(Replacing, OneIsThereAtEveryFaultWhereNothingExchanges) { at_every_fault(cannot_exchange); }

TEST_F(Replacing, TheOldOneComesBackWhereTheNewCannotHaveItsName) {
  const auto refused = [&](const Call& call) {
    return call.kind->name == "rename" && call.path != step() && call.to == step() && call.path.extension() == ".partial"
               ? EACCES
               : cannot_exchange(call);
  };
  EXPECT_EQ(trace([&] { return replace(); }, {.folder = folder(), .fault = {}, .refused = refused}).code, 1);
  EXPECT_EQ(io::read_file(step() / "manifest.json"), "old");
  EXPECT_EQ(read_tree(folder()).size(), 3U);
}

// The new folder has no lock yet, and looks like one that a dead process left.
TEST_F(Replacing, AFolderThatIsClearedUpBeforeItsLockIsMadeAgain) {
  for (const char* call : {"openat", "flock"}) {
    set_up();
    EXPECT_EQ(cleared_up_at(call).code, 0) << call;
    EXPECT_EQ(found(), "new") << call;
  }
}

TEST_F(Replacing, AFolderWithItsLockIsNotClearedUp) {
  EXPECT_EQ(cleared_up_at("fsync").code, 0);
  EXPECT_EQ(found(), "new");
}

}  // namespace
}  // namespace lockstep::faults
