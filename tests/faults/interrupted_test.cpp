// Calls that a signal interrupts, and writes that take less than they are asked to: they are made again.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>

#include "app/folder/run_lock.h"
#include "faults/in_memory.h"
#include "faults/trace/tracer.h"
#include "io/appended_file.h"
#include "io/folder_entries.h"
#include "io/new_folder.h"
#include "io/spill_file.h"
#include "support/temp_folder.h"

namespace lockstep::faults {
namespace {

class Interrupted : public testing::Test {
 protected:
  static void SetUpTestSuite() { keep_folders_in_memory(); }
  void SetUp() override {
    if (const std::string why = why_not_traced(); !why.empty()) GTEST_SKIP() << why;
    folder_ = std::filesystem::canonical(temp_.path());
  }
  /// That `body`, which returns whether all is well, takes every call's interruption and every short write.
  void expect_unnoticed(const std::function<bool()>& body) const {
    const auto code = [&] {
      try {
        return body() ? 0 : 1;
      } catch (const std::exception&) {
        return 2;
      }
    };
    const std::vector<Call> calls = trace(code, {.folder = folder_, .fault = {}}).calls;
    EXPECT_FALSE(calls.empty());
    for (std::size_t at = 1; at <= calls.size(); ++at) {
      const CallKind& kind = *calls[at - 1].kind;
      const bool interruptible = std::find(kind.errors.begin(), kind.errors.end(), EINTR) != kind.errors.end();
      if (interruptible) {
        EXPECT_EQ(trace(code, {.folder = folder_, .fault = {at, Act::fail, EINTR}}).code, 0) << calls[at - 1].text(folder_);
      }
      if (kind.length >= 0) {
        EXPECT_EQ(trace(code, {.folder = folder_, .fault = {at, Act::shorten, 0}}).code, 0) << calls[at - 1].text(folder_);
      }
    }
  }
  TempFolder temp_;
  Path folder_;
};

TEST_F(Interrupted, AppendedFile) {
  expect_unnoticed([&] {
    std::filesystem::remove(folder_ / "a");
    io::AppendedFile file(folder_ / "a", io::AppendedFile::Open::new_one);
    file.append("first\n");
    io::AppendedFile(folder_ / "a").append("second\n");
    return io::read_file(folder_ / "a") == "first\nsecond\n";
  });
}

// Where the kernel has no ring, and moves no more than a part at a time.
TEST_F(Interrupted, SpillFile) {
  expect_unnoticed([&] {
    struct alignas(io::SpillFile::block) Blocks {
      std::array<std::byte, 2 * io::SpillFile::block> bytes = {};
    };
    static Blocks written, read;
    written.bytes.fill(std::byte{7});
    read.bytes.fill(std::byte{0});
    io::SpillFile file(folder_, written.bytes.size(), {.ring = false, .direct = false});
    file.finish(file.begin_write(0, written.bytes));
    file.finish(file.begin_read(0, read.bytes));
    return read.bytes == written.bytes;
  });
}

TEST_F(Interrupted, EntriesOfAFolder) {
  io::replace_file(folder_ / "a", "");
  expect_unnoticed([&] {
    std::error_code failed;
    return io::entries_of(folder_, failed) == std::vector<Path>{folder_ / "a"} && !failed;
  });
}

TEST_F(Interrupted, RunLock) {
  expect_unnoticed([&] {
    const app::RunLock lock(folder_ / "run");
    const std::string record = io::read_file(folder_ / "run/run.lock");
    return record.size() == 1024 && record.back() == '\n';
  });
}

TEST_F(Interrupted, NewAndRemovedFolders) {
  expect_unnoticed([&] {
    for (const char* content : {"old", "new"}) {
      io::NewFolder made(folder_ / "made");
      io::replace_file(made.path() / "file", content);
      made.commit();
    }
    const bool good = io::read_file(folder_ / "made/file") == "new";
    io::remove_folder(folder_ / "made");
    io::settle_folders(folder_);
    std::error_code failed;
    return good && io::entries_of(folder_, failed).empty() && !failed;
  });
}

}  // namespace
}  // namespace lockstep::faults
