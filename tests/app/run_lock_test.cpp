#include "app/folder/run_lock.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>

#include "app/cli/process.h"
#include "base/error.h"
#include "base/json.h"
#include "support/patience.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// A file system without locks, at a time of the test's own.
LockSystem without_locks(int code, std::int64_t now) {
  const auto refuse = [code](int /*descriptor*/) {
    errno = code;
    return -1;
  };
  return {.lock = refuse, .now = [now] { return now; }};
}

std::string refusal(const fs::path& folder, const LockSystem& system = {}) {
  try {
    const RunLock lock(folder, system);
  } catch (const UserError& error) {
    EXPECT_FALSE(error.problems().front().remedy.empty());
    return error.what();
  }
  return {};
}

std::string record(const std::string& host, std::int64_t process, std::int64_t time) {
  return Json(Json::Object{{"host", host}, {"process_space", "elsewhere"}, {"process", process}, {"time", time}}).dump();
}

TEST(RunLock, IsHeldByOneAtATime) {
  const TempFolder folder;
  {
    RunLock lock(folder.path());
    EXPECT_NE(refusal(folder.path()).find("process " + std::to_string(getpid()) + " on " + host_name()), std::string::npos);
    EXPECT_EQ(lock.demand(), "");
  }
  EXPECT_FALSE(fs::exists(folder / "run.lock"));
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(RunLock, TellsWhetherARunIsGoingOn) {
  const TempFolder folder;
  EXPECT_FALSE(is_written(folder.path()));
  {
    const RunLock lock(folder.path());
    EXPECT_TRUE(is_written(folder.path()));
  }
  EXPECT_FALSE(is_written(folder.path()));
  io::replace_file(folder / "run.lock", record("far", 77, 1000));
  EXPECT_TRUE(is_written(folder.path())) << "nothing is known of a process there";
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder.path());
    _exit(0);
  }
  support::status_of(child);
  EXPECT_TRUE(fs::exists(folder / "run.lock"));
  EXPECT_FALSE(is_written(folder.path()));
}

TEST(RunLock, AProcessThatDiesGivesItBack) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder.path());
    _exit(fs::exists(folder / "run.lock") ? 0 : 1);
  }
  ASSERT_EQ(WEXITSTATUS(support::status_of(child)), 0);
  EXPECT_TRUE(fs::exists(folder / "run.lock"));
  EXPECT_EQ(refusal(folder.path()), "");
}

// A limit on a file's size refuses what a full disk refuses.
TEST(RunLock, AFullDiskLeavesNoEmptyLock) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit nothing{0, 0};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &nothing);
    _exit(refusal(folder / "run").find("cannot write") != std::string::npos && !fs::exists(folder / "run") ? 0 : 1);
  }
  EXPECT_EQ(WEXITSTATUS(support::status_of(child)), 0);
}

TEST(RunLock, AFolderMadeForNothingVanishes) {
  const TempFolder folder;
  {
    const RunLock lock(folder / "runs/a");
  }
  EXPECT_FALSE(fs::exists(folder / "runs/a"));
  {
    const RunLock lock(folder / "runs/a");
    io::replace_file(folder / "runs/a/config.toml", "");
  }
  EXPECT_TRUE(fs::exists(folder / "runs/a/config.toml"));
}

TEST(RunLock, WithoutLocksOfTheFileSystemTheFileItselfIsOne) {
  for (const int code : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    const TempFolder folder;
    {
      const RunLock lock(folder.path(), without_locks(code, 1000));
      const Json json = Json::parse(io::read_file(folder / "run.lock"));
      EXPECT_EQ(json.at("host").string(), host_name());
      EXPECT_EQ(json.at("process").integer(), getpid());
      EXPECT_EQ(json.at("time").integer(), 1000);
      EXPECT_NE(refusal(folder.path(), without_locks(code, 1120)).find("another run is writing"), std::string::npos);
    }
    EXPECT_FALSE(fs::exists(folder / "run.lock"));
  }
  const TempFolder folder;
  EXPECT_THROW(RunLock(folder.path(), without_locks(EIO, 0)), SystemError);
}

TEST(RunLock, WhatWasNotRenewedIsTakenOverWithAWarning) {
  const TempFolder folder;
  io::replace_file(folder / "run.lock", record("far", 77, 1000));
  EXPECT_NE(refusal(folder.path(), without_locks(ENOLCK, 1120)).find("process 77 on far"), std::string::npos);
  const RunLock lock(folder.path(), without_locks(ENOLCK, 1121));
  EXPECT_NE(lock.warning().find("taking over the lock that process 77 on far has left behind"), std::string::npos);
  EXPECT_NE(refusal(folder.path(), without_locks(ENOLCK, 1122)), "");
}

TEST(RunLock, OfADeadNeighbourIsTakenOverAtOnce) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder.path(), without_locks(ENOLCK, 1000));
    _exit(0);
  }
  support::status_of(child);
  const RunLock lock(folder.path(), without_locks(ENOLCK, 1001));
  EXPECT_NE(lock.warning(), "");
}

TEST(RunLock, ALockWithoutARecordIsAsOldAsItsFile) {
  const TempFolder folder;
  io::replace_file(folder / "run.lock", "");
  const std::int64_t now = LockSystem{}.now();
  EXPECT_NE(refusal(folder.path(), without_locks(ENOLCK, now)).find("has not said its name"), std::string::npos);
  EXPECT_EQ(refusal(folder.path(), without_locks(ENOLCK, now + 1000)), "");
}

TEST(RunLock, IsRenewedWhileItIsHeld) {
  const TempFolder folder;
  LockSystem system = without_locks(ENOLCK, 0);
  const auto time = std::make_shared<std::atomic<std::int64_t>>(1000);
  system.now = [time] { return time->load(); };
  system.renewed_every = 0.001;
  const RunLock lock(folder.path(), system);
  *time = 2000;
  const auto time_in_file = [&] { return Json::parse(io::read_file(folder / "run.lock")).at("time").integer(); };
  EXPECT_TRUE(support::comes_true([&] { return time_in_file() == 2000; }));
}

TEST(RunLock, OneThatWasDeletedIsTakenAgain) {
  for (const LockSystem& system : {LockSystem{}, without_locks(ENOLCK, 1000)}) {
    const TempFolder folder;
    {
      RunLock lock(folder.path(), system);
      fs::remove(folder / "run.lock");
      EXPECT_NE(lock.demand().find("run.lock was deleted while the run went on; it is there again"), std::string::npos);
      EXPECT_EQ(lock.demand(), "");
      EXPECT_NE(refusal(folder.path(), system).find("another run is writing into this folder"), std::string::npos);
      fs::remove(folder / "run.lock");
      const RunLock other(folder.path(), system);
      io::replace_file(folder / "run.lock", record("far", 77, 1000));
      EXPECT_THROW(lock.demand(), UserError);
    }
  }
}

TEST(RunLock, WhoWasTakenOverIsTold) {
  const TempFolder folder;
  RunLock stopped(folder.path(), without_locks(ENOLCK, 1000));
  std::string said;
  io::replace_file(folder / "run.lock", record("far", 77, 1000));
  RunLock other(folder.path(), without_locks(ENOLCK, 5000));
  try {
    stopped.demand();
  } catch (const UserError& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("has taken the run over"), std::string::npos) << said;
  EXPECT_NO_THROW(other.demand());
}

}  // namespace
}  // namespace lockstep::app
