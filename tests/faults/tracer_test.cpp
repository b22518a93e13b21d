// The tracer, by small bodies of code that run under it.

#include "faults/trace/tracer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "faults/in_memory.h"
#include "io/file.h"
#include "support/temp_folder.h"

namespace lockstep::faults {
namespace {

class Tracer : public testing::Test {
 protected:
  static void SetUpTestSuite() { keep_folders_in_memory(); }
  void SetUp() override {
    if (const std::string why = why_not_traced(); !why.empty()) GTEST_SKIP() << why;
  }
  Path folder() const { return std::filesystem::canonical(temp_.path()); }
  Outcome traced(const Body& body, Fault fault = {}) const { return trace(body, {.folder = folder(), .fault = fault}); }
  static std::string text(const Outcome& outcome, const Path& root) {
    std::string all;
    for (const Call& call : outcome.calls) all += call.text(root) + "\n";
    return all;
  }
  int write_file() const {
    const int file = ::open((folder() / "a").c_str(), O_WRONLY | O_CREAT, 0666);
    if (file < 0) return errno;
    const ssize_t count = ::write(file, "12345678", 8);
    if (count < 0) return errno;
    if (::close(file) != 0) return ::fcntl(file, F_GETFD) < 0 ? 100 + errno : errno;  // EBADF: it is closed
    return static_cast<int>(count);
  }
  TempFolder temp_;
};

TEST_F(Tracer, CountsTheCallsOnAFolderAndNoOthers) {
  const Outcome outcome = traced([&] {
    std::ifstream("/proc/self/status").get();
    return write_file();
  });
  EXPECT_EQ(outcome.code, 8);
  EXPECT_EQ(text(outcome, folder()), "openat a\nwrite a\nclose a\n");
}

TEST_F(Tracer, FollowsThreadsAndChildren) {
  const Outcome outcome = traced([&] {
    std::thread([&] { ::mkdir((folder() / "by-thread").c_str(), 0777); }).join();
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/mkdir", "mkdir", (folder() / "by-child").c_str(), nullptr);
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return ::chdir(folder().c_str()) == 0 ? ::rename("by-child", "by-parent") : 1;
  });
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(text(outcome, folder()), "mkdir by-thread\nmkdir by-child\nrename by-child to by-parent\n");
}

TEST_F(Tracer, MakesTheCallFailThatItIsToldTo) {
  EXPECT_EQ(traced([&] { return write_file(); }, {1, Act::fail, EMFILE}).code, EMFILE);
  EXPECT_FALSE(std::filesystem::exists(folder() / "a"));
  EXPECT_EQ(traced([&] { return write_file(); }, {2, Act::fail, ENOSPC}).code, ENOSPC);
  EXPECT_EQ(io::read_file(folder() / "a"), "");
  EXPECT_EQ(traced([&] { return write_file(); }, {3, Act::fail, EIO}).code, 100 + EBADF);
  EXPECT_EQ(traced([&] { return write_file(); }, {4, Act::fail, EIO}).code, 8);
}

TEST_F(Tracer, KillsBeforeTheCall) {
  const Outcome outcome = traced([&] { return write_file(); }, {2, Act::kill, 0});
  EXPECT_EQ(outcome.code, -SIGKILL);
  EXPECT_EQ(outcome.struck, 2U);
  EXPECT_EQ(io::read_file(folder() / "a"), "");
}

TEST_F(Tracer, ShortensAWrite) {
  EXPECT_EQ(traced([&] { return write_file(); }, {2, Act::shorten, 0}).code, 4);
  EXPECT_EQ(io::read_file(folder() / "a"), "1234");
}

// The calls of several threads come in any order, so the n-th may be one that cannot have the fault.
TEST_F(Tracer, AFaultWaitsForACallThatCanHaveIt) {
  const Outcome outcome = traced([&] { return write_file(); }, {1, Act::shorten, 0});
  EXPECT_EQ(outcome.struck, 2U);
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(traced([&] { return write_file(); }, {1, Act::fail, EINVAL}).struck, 0U);
}

TEST_F(Tracer, LeavesNothingRunningWhereItFails) {
  const auto fails = [](const Call&) -> int { throw std::runtime_error("refused"); };
  EXPECT_THROW(trace([&] { return write_file(); }, {.folder = folder(), .fault = {}, .refused = fails}), std::runtime_error);
  EXPECT_EQ(::waitpid(-1, nullptr, __WALL), -1);
}

TEST_F(Tracer, RecordsResultsAndContents) {
  const Outcome outcome = trace([&] { return write_file(); }, {.folder = folder(), .fault = {}, .records = true});
  ASSERT_EQ(outcome.calls.size(), 3U);
  EXPECT_GE(outcome.calls[0].result, 0);
  EXPECT_EQ(outcome.calls[1].result, 8);
  EXPECT_EQ(outcome.calls[1].content, "12345678");
}

TEST_F(Tracer, EndsWhatTakesTooLong) {
  const auto waits = [] { return ::pause(); };
  const Outcome outcome = trace(waits, {.folder = folder(), .fault = {}, .limit_seconds = 0.1});
  EXPECT_TRUE(outcome.too_long);
  EXPECT_EQ(outcome.code, -SIGKILL);
  EXPECT_TRUE(run(waits, 0.1).too_long);
}

}  // namespace
}  // namespace lockstep::faults
