#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "app/cli/commands.h"
#include "support/capture.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

struct Result {
  int code;
  std::string out, err;
};

/// On a plain host with a folder without programs as PATH.
Result run(const Arguments& arguments) {
  const TempFolder nothing;
  for (const char* name : {"HOSTFILE", "NGPU_PER_HOST"}) unsetenv(name);
  const std::string path = std::getenv("PATH");
  setenv("LOCKSTEP_SCHEDULER", "none", 1);
  setenv("PATH", nothing.path().c_str(), 1);
  const std::vector<Command> commands{launch_command()};
  Capture err;
  testing::internal::CaptureStdout();
  const int code = run_program(commands, arguments, stdout, err.file());
  setenv("PATH", path.c_str(), 1);
  return {code, testing::internal::GetCapturedStdout(), err.text()};
}

TEST(LaunchCommand, PrintsTheBlocksAndTheCommand) {
  const Result result = run({"launch", "-n", "3", "--oversubscribe", "--dry-run", "--", "train", "data.dir=my book"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.rfind("[ezpz/bin/utils.sh]\n  • USER=", 0), 0U) << result.out;
  EXPECT_NE(result.out.find("\n[ezpz_setup_host]\n  • HOSTFILE=None\n\n[HOSTS]\n  • [host:0] - "), std::string::npos)
      << result.out;
  EXPECT_EQ(result.out.find("_env]"), std::string::npos);
  EXPECT_NE(result.out.find("\n[DIST INFO]\n  • HOSTFILE=None\n  • NHOSTS=1\n  • NGPU_PER_HOST="), std::string::npos);
  EXPECT_NE(result.out.find("\n[LAUNCH]\n  • neither mpirun nor mpiexec is installed"), std::string::npos);
  EXPECT_NE(result.out.find("/test_app train --ranks 3 'data.dir=my book' checkpoint.seconds=30 checkpoint.async=true\n"),
            std::string::npos);
}

TEST(LaunchCommand, RefusesMoreRanksThanTheHostHasRoomForAlsoWhenDry) {
  for (const Arguments& dry : {Arguments{}, Arguments{"--dry-run"}}) {
    Arguments words{"launch", "-n", "99999"};
    words.insert(words.end(), dry.begin(), dry.end());
    words.insert(words.end(), {"--", "train"});
    const Result result = run(words);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("99999 ranks a host are more than there is room for: "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("--oversubscribe"), std::string::npos) << result.err;
  }
}

TEST(LaunchCommand, SaysWhichFolderItAdded) {
  const Result result = run({"launch", "-n", "1", "--retries", "1", "--dry-run", "--", "train"});
  EXPECT_NE(result.out.find("was added, so that a retry finds the run\n"), std::string::npos);
  EXPECT_NE(result.out.find(" train checkpoint.seconds=30 checkpoint.async=true log.dir=runs/"), std::string::npos);
}

TEST(LaunchCommand, ACommandNeedsNoDashes) {
  const Result result = run({"launch", "-n", "1", "--dry-run", "train", "--config", "x.toml"});
  EXPECT_NE(result.err.find("x.toml"), std::string::npos) << result.err;  // train's words are read as train reads them
  const Result other = run({"launch", "-n", "1", "--dry-run", "eval", "--json", "a", "-n", "9"});
  EXPECT_NE(other.out.find("eval --json a -n 9\n"), std::string::npos) << other.out;
  EXPECT_NE(run({"launch", "--nn", "1", "train"}).err.find("unknown option --nn"), std::string::npos);
}

TEST(LaunchCommand, PassesOnWhatIsBehindTheDashes) {
  const Result result = run({"launch", "-n", "1", "--dry-run", "--", "eval", "--", "--timeout", "-n", "9"});
  EXPECT_NE(result.out.find("/test_app eval -- --timeout -n 9\n"), std::string::npos) << result.out << result.err;
}

TEST(LaunchCommand, ReportsEveryProblem) {
  const Result result = run({"launch", "-n", "0", "--hostfile", "/no/file", "--timeout", "-1", "--retries", "-1", "--spares", "1",
                             "--", "train", "--ranks=2", "no.key=1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  for (const char* part : {"lockstep: 7 problems", "-n 0: must", "--hostfile /no/file", "--timeout -1: must",
                           "--retries -1: must", "--spares 1: without --retries", "--ranks stands behind --", "no.key"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
  }
}

TEST(LaunchCommand, RefusesNothingToLaunch) {
  for (const Arguments& arguments : {Arguments{"launch"}, {"launch", "--"}, {"launch", "-n", "2"}}) {
    EXPECT_EQ(run(arguments).code, 2);
    EXPECT_NE(run(arguments).err.find("there is nothing to launch"), std::string::npos);
  }
  EXPECT_NE(run({"launch", "--", "launch"}).err.find("a launch cannot be launched"), std::string::npos);
}

TEST(LaunchCommand, HelpFitsAScreen) {
  const Result result = run({"launch", "--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 40);
  for (const char* option :
       {"-n N", "--ppn P", "--nhosts N", "--cpu-bind HOW", "--hostfile FILE", "--timeout SECONDS", "--retries N", "--dry-run"}) {
    EXPECT_NE(result.out.find(option), std::string::npos) << option;
  }
}

TEST(LaunchCommand, HelpNamesAConfigurationThatIsThere) {
  const std::string help = run({"launch", "--help"}).out;
  const std::size_t begin = help.find("configs/"), end = help.find_first_of(" \n", begin);
  ASSERT_NE(begin, std::string::npos);
  const auto sources = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  EXPECT_TRUE(std::filesystem::exists(sources / help.substr(begin, end - begin))) << help.substr(begin, end - begin);
}

}  // namespace
}  // namespace lockstep::app
