#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "app/launch/supervise.h"
#include "base/error.h"
#include "support/patience.h"
#include "support/temp_folder.h"

namespace lockstep::launch {
namespace {

Process shell(const std::string& script) { return {{"sh", "-c", script}, {}}; }

Outcome run(const std::string& script, const Watch& watch = {}) {
  Supervisor supervisor(watch);
  return supervisor.run(shell(script));
}

// Runs `script`, which makes the file $READY when it is to be sent these signals; $READY is made anew for each.
Outcome run_and_signal(const std::string& script, const std::vector<int>& signals, const Watch& watch = {}) {
  const TempFolder folder;
  const std::filesystem::path ready = folder / "ready";
  Supervisor supervisor(watch);
  std::thread sender([&, runner = pthread_self()] {
    for (const int signal : signals) {
      EXPECT_TRUE(support::comes_true([&] { return std::filesystem::exists(ready); }));
      std::filesystem::remove(ready);
      pthread_kill(runner, signal);
    }
  });
  const Outcome outcome = supervisor.run({{"sh", "-c", script}, {{"READY", ready.string()}}});
  sender.join();
  return outcome;
}

TEST(LaunchSupervise, GivesTheExitCode) {
  EXPECT_EQ(run("exit 0").code, 0);
  EXPECT_EQ(run("exit 7").code, 7);
  EXPECT_EQ(run("kill -KILL $$").code, 137);
  EXPECT_FALSE(run("exit 7").interrupted);
}

TEST(LaunchSupervise, PassesOutputAndEnvironmentOn) {
  for (const double timeout : {0.0, 60.0}) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Supervisor supervisor({.timeout = timeout});
    const Outcome outcome =
        supervisor.run({{"sh", "-c", "echo $GREETING; echo oops >&2; wc -c; echo $0", "it's"}, {{"GREETING", "hello"}}});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "hello\n0\nit's\n") << "input is empty";
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "oops\n");
  }
}

TEST(LaunchSupervise, PassesMuchOutputOn) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run("head -c 1000000 /dev/zero | tr '\\0' x", {.timeout = 60}).code, 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), std::string(1000000, 'x'));
}

TEST(LaunchSupervise, ALauncherThatWaitsForHostsThatAreCutOffIsEnded) {
  const std::string rank = std::filesystem::canonical("/bin/sleep");
  Supervisor supervisor({.leaving = 0.5});
  const Outcome outcome = supervisor.run({{"sh", "-c", "sleep 1.2; tail -f /dev/null; exit 5"}, {}, rank});
  EXPECT_TRUE(outcome.left_over);
  EXPECT_EQ(outcome.code, 1);
  std::string said;
  const Process process{{"sh", "-c", "sleep 1.2; tail -f /dev/null"}, {}, rank};
  EXPECT_EQ(run_with_retries(supervisor, {}, [&](int) { return process; }, [&](const std::string& text) { said += text; }), 1);
  EXPECT_NE(said.find("waited on for other hosts"), std::string::npos) << said;
}

TEST(LaunchSupervise, ALauncherWhoseRanksAreAllElsewhereIsNotEnded) {
  Supervisor supervisor({.leaving = 0.5});
  const Outcome outcome = supervisor.run({{"sh", "-c", "sleep 2; exit 5"}, {}, "/no/such/rank"});
  EXPECT_FALSE(outcome.left_over);
  EXPECT_EQ(outcome.code, 5);
}

TEST(LaunchSupervise, PassesSignalsOn) {
  for (const auto& [name, signal] : {std::pair{"INT", SIGINT}, {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"HUP", SIGHUP}}) {
    const std::string script = "trap 'exit 5' " + std::string(name) + "; : > $READY; while :; do sleep 0.01; done";
    const Outcome outcome = run_and_signal(script, {signal});
    EXPECT_EQ(outcome.code, 5) << name;
    EXPECT_TRUE(outcome.interrupted);
  }
  EXPECT_EQ(run_and_signal(": > $READY; while :; do sleep 0.01; done", {SIGTERM}).code, 128 + SIGTERM);
}

TEST(LaunchSupervise, TheFirstRequestToStopMayBeAnotherSignal) {
  const std::string script = "trap 'echo usr1; : > $READY' USR1; trap 'exit 6' TERM; : > $READY; while :; do sleep 0.01; done";
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_and_signal(script, {SIGINT, SIGTERM}, {.stop_signal = SIGUSR1}).code, 6);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "usr1\n");
}

TEST(LaunchSupervise, AJobThatWasToldToStopIsToldFromAWholeOne) {
  const std::string script = "trap 'exit 0' USR1; : > $READY; while :; do sleep 0.01; done";
  for (const auto& [signal, code] : {std::pair{SIGINT, 128 + SIGINT}, {SIGTERM, 128 + SIGTERM}, {SIGHUP, 0}, {SIGUSR1, 0}})
    EXPECT_EQ(run_and_signal(script, {signal}, {.stop_signal = SIGUSR1}).code, code) << signal;
}

TEST(LaunchSupervise, AHangUpThatIsIgnoredIsNotPassedOn) {
  std::signal(SIGHUP, SIG_IGN);  // as nohup does
  const std::string script = "trap 'exit 6' TERM; : > $READY; sleep 0.1; : > $READY; while :; do sleep 0.01; done";
  const Outcome outcome = run_and_signal(script, {SIGHUP, SIGTERM});
  std::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(outcome.code, 6);
}

// A person has stopped the pager that reads: signals still reach the job.
TEST(LaunchSupervise, AReaderThatStallsDoesNotStopIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const int before = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  const Outcome outcome = run_and_signal(": > $READY; exec yes", {SIGTERM}, {.timeout = 60, .grace = 0.05});
  dup2(before, STDOUT_FILENO);
  for (const int end : {before, ends[0], ends[1]}) close(end);
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  EXPECT_TRUE(outcome.interrupted);
}

// As ranks of an mpirun that is killed, each in a group of its own.
TEST(LaunchSupervise, NothingOutlivesAProcessThatWasKilled) {
  const TempFolder folder;
  const std::string file = (folder / "pid").string();
  const std::string rank = "setsid sh -c 'echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000' & ";
  EXPECT_EQ(run(rank + "until [ -e " + file + " ]; do sleep 0.01; done; kill -KILL $$").code, 128 + SIGKILL);
  pid_t left = 0;
  std::ifstream(file) >> left;
  ASSERT_GT(left, 0);
  EXPECT_EQ(kill(left, 0), -1);
}

TEST(LaunchSupervise, ItsDeathTakesTheProcessAlong) {
  const TempFolder folder;
  const std::string ready = (folder / "ready").string(), ended = (folder / "ended").string();
  const pid_t launch = fork();
  if (launch == 0) {
    run("trap ': > " + ended + "; exit 0' TERM; : > " + ready + "; while :; do sleep 0.01; done");
    _exit(0);
  }
  ASSERT_TRUE(support::comes_true([&] { return std::filesystem::exists(ready); }));
  kill(launch, SIGKILL);
  waitpid(launch, nullptr, 0);
  EXPECT_TRUE(support::comes_true([&] { return std::filesystem::exists(ended); }));
}

TEST(LaunchSupervise, EndsWhatSaysNothing) {
  const Outcome outcome = run("sleep 1000", {.timeout = 0.05});
  EXPECT_EQ(outcome.code, 124);
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(run("trap '' TERM; while :; do sleep 0.01; done", {.timeout = 0.05, .grace = 0.05}).code, 124) << "SIGKILL follows";
}

TEST(LaunchSupervise, LetsLiveWhatSpeaks) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run("for i in 1 2 3 4 5 6 7 8 9; do sleep 0.25; echo $i; done; exit 3", {.timeout = 2}).code, 3);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

TEST(LaunchSupervise, LeavesNothingBehind) {
  const TempFolder folder;
  const std::string file = (folder / "pid").string();
  EXPECT_EQ(run("sleep 1000 & echo $! > " + file + "; exit 4", {.timeout = 60}).code, 4);
  pid_t left = 0;
  std::ifstream(file) >> left;
  ASSERT_GT(left, 0);
  // The orphan's new parent collects it some time.
  for (std::string state = "S"; state != "Z" && std::filesystem::exists("/proc/" + std::to_string(left));) {
    std::string skipped;
    std::ifstream("/proc/" + std::to_string(left) + "/stat") >> skipped >> skipped >> state;
  }
}

TEST(LaunchSupervise, AProgramThatIsNotThereIsAnError) {
  try {
    Supervisor({}).run({{"no-such-program"}, {}});
    FAIL() << "ran";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("no-such-program cannot be run: No such file"), std::string::npos) << error.what();
  }
}

struct Tried {
  int code;
  int attempts = 0;
  std::vector<std::string> said;
};

Tried try_often(int count, const std::function<std::string(int)>& script, const Watch& watch = {},
                std::function<std::int64_t()> progress = {}) {
  Tried tried{};
  Supervisor supervisor(watch);
  tried.code = run_with_retries(
      supervisor, {.count = count, .pauses = {0, 0.001}, .progress = std::move(progress)},
      [&](int attempt) {
        tried.attempts = attempt + 1;
        return shell(script(attempt));
      },
      [&](const std::string& text) { tried.said.push_back(text); });
  return tried;
}

TEST(LaunchRetries, TriesAgainWhatFails) {
  const Tried tried = try_often(3, [](int) { return "exit 9"; });
  EXPECT_EQ(tried.code, 9);
  EXPECT_EQ(tried.attempts, 4);
  EXPECT_EQ(tried.said,
            (std::vector<std::string>{"the job failed (exit code 9); retry 1 of 3 at once",
                                      "the job failed (exit code 9); retry 2 of 3 in 0.001 s",
                                      "the job failed (exit code 9); retry 3 of 3 in 0.001 s", "the job failed (exit code 9)"}));
}

TEST(LaunchRetries, AnAttemptThatGotFurtherIsFollowedByNoPause) {
  std::int64_t step = 0;
  const auto script = [&](int attempt) {
    if (attempt != 1) step += 5;
    return "exit 9";
  };
  const Tried tried = try_often(3, script, {}, [&step] { return step; });
  const std::string failed = "the job failed (exit code 9); retry ";
  EXPECT_EQ(tried.said, (std::vector<std::string>{failed + "1 of 3 at once", failed + "2 of 3 in 0.001 s",
                                                  failed + "3 of 3 at once", "the job failed (exit code 9)"}));
}

TEST(LaunchRetries, StepsThatAreDoneAgainAreNoProgress) {
  const std::array<std::int64_t, 4> steps = {10, 4, 8, 10};
  std::int64_t step = 0;
  const auto script = [&](int attempt) {
    step = steps.at(static_cast<std::size_t>(attempt));
    return "exit 9";
  };
  const Tried tried = try_often(3, script, {}, [&step] { return step; });
  ASSERT_EQ(tried.said.size(), 4U);
  EXPECT_NE(tried.said[0].find("at once"), std::string::npos);
  for (const int i : {1, 2}) EXPECT_NE(tried.said[static_cast<std::size_t>(i)].find("in 0.001 s"), std::string::npos);
}

TEST(LaunchRetries, StopsWhenItSucceeds) {
  const Tried tried = try_often(3, [](int attempt) { return attempt == 0 ? "exit 1" : "exit 0"; });
  EXPECT_EQ(tried.code, 0);
  EXPECT_EQ(tried.attempts, 2);
  EXPECT_EQ(try_often(0, [](int) { return "exit 1"; }).attempts, 1);
}

TEST(LaunchRetries, ATrainingThatDivergedWouldDivergeAgain) {
  const Tried tried = try_often(3, [](int) { return "exit 3"; });
  EXPECT_EQ(tried.code, 3);
  EXPECT_EQ(tried.said.size(), 1U);
}

TEST(LaunchRetries, BadInputStaysBad) {
  const Tried tried = try_often(3, [](int) { return "exit 2"; });
  EXPECT_EQ(tried.code, 2);
  EXPECT_EQ(tried.attempts, 1);
}

TEST(LaunchRetries, ASilentJobIsTriedAgain) {
  const Tried tried = try_often(1, [](int attempt) { return attempt == 0 ? "sleep 1000" : "exit 0"; }, {.timeout = 2});
  EXPECT_EQ(tried.code, 0);
  EXPECT_EQ(tried.said.size(), 1U);
  EXPECT_NE(tried.said.at(0).find("exit code 124"), std::string::npos);
}

TEST(LaunchRetries, ATrainingThatASignalEndedIsNotTriedAgain) {
  for (const int code : {128 + SIGINT, 128 + SIGTERM}) {
    const Tried tried = try_often(2, [&](int) { return "exit " + std::to_string(code); });
    EXPECT_EQ(tried.code, code);
    EXPECT_EQ(tried.attempts, 1);
  }
}

TEST(LaunchRetries, AnInterruptIsTheEnd) {
  Supervisor supervisor({});
  int attempts = 0;
  const auto process = [&](int) {
    ++attempts;
    raise(SIGTERM);  // blocked: waits for run()
    return shell("exec sleep 1000");
  };
  EXPECT_EQ(run_with_retries(supervisor, {.count = 3, .pauses = {0}}, process, [](const std::string&) {}), 128 + SIGTERM);
  EXPECT_EQ(attempts, 1);
}

TEST(LaunchRetries, AnInterruptEndsThePause) {
  Supervisor supervisor({});
  int attempts = 0;
  const auto process = [&](int) {
    ++attempts;
    return shell("exit 1");
  };
  const auto interrupt = [](const std::string&) { raise(SIGINT); };
  EXPECT_EQ(run_with_retries(supervisor, {.count = 3, .pauses = {1000}}, process, interrupt), 128 + SIGINT);
  EXPECT_EQ(attempts, 1);
}

}  // namespace
}  // namespace lockstep::launch
