#include "app/cli/command.h"

#include <gtest/gtest.h>

#include <new>
#include <regex>

#include "app/help/help.h"
#include "base/error.h"
#include "support/capture.h"

namespace lockstep::app {
namespace {

const std::vector<Command> kCommands = with_help({
    {"train", "train a model", [](const Arguments& a) { return a == Arguments{"--help"} ? 40 : static_cast<int>(a.size()); }},
    {"user", "fails", [](const Arguments&) -> int { throw UserError("x is 3, but must be even", "set x=2"); }},
    {"users", "fails", [](const Arguments&) -> int { throw UserError(std::vector<Problem>{{"first", "do a"}, {"second", ""}}); }},
    {"system", "fails", [](const Arguments&) -> int { throw SystemError("open(f): no space"); }},
    {"bug", "fails", [](const Arguments&) -> int { throw BrokenRule("a < b"); }},
    {"memory", "fails", [](const Arguments&) -> int { throw std::bad_alloc(); }},
    {"other", "fails", [](const Arguments&) -> int { throw std::out_of_range("at"); }},
});

struct Result {
  int code;
  std::string out, err;
};

Result run(const Arguments& arguments) {
  Capture out, err;
  testing::internal::CaptureStdout();
  const int code = run_program(kCommands, arguments, out.file(), err.file());
  return {code, out.text() + testing::internal::GetCapturedStdout(), err.text()};
}

TEST(Program, RunsTheCommandWithItsArguments) {
  EXPECT_EQ(run({"train"}).code, 0);
  EXPECT_EQ(run({"train", "a", "b"}).code, 2);
}

TEST(Program, HelpListsEveryCommand) {
  for (const Arguments& arguments :
       {Arguments{}, Arguments{"--help"}, Arguments{"-h"}, Arguments{"help"}, Arguments{"help", "--help"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0);
    for (const Command& command : kCommands) EXPECT_NE(result.out.find("\n  " + command.name + " "), std::string::npos);
    EXPECT_EQ(result.err, "");
  }
}

TEST(Program, HelpOfACommandIsTheCommands) {
  EXPECT_EQ(run({"help", "train"}).code, 40);
  EXPECT_EQ(run({"help", "train", "-h"}).code, 1) << "one word";
}

TEST(Program, HelpOfTheConfiguration) {
  EXPECT_EQ(run({"help", "config", "log", "--help"}).out, run({"help", "config", "log"}).out);
  EXPECT_NE(run({"help", "config"}).out.find("train.max_iters=10000"), std::string::npos);
  EXPECT_EQ(run({"help", "config", "log"}).out.rfind("log: ", 0), 0U);
  EXPECT_EQ(run({"help", "config", "nothing"}).code, 2);
}

TEST(Program, Version) {
  EXPECT_EQ(run({"--version"}).code, 0);
  for (const char* word : {"-V", "version"}) EXPECT_EQ(run({word}).out, run({"--version"}).out);
  const std::string said = run({"--version"}).out;
  EXPECT_TRUE(std::regex_match(said, std::regex(R"(lockstep \d+\.\d+\.\d+ \(commit ([0-9a-f]{40}(, dirty)?|unknown)\)\n)")))
      << said;
}

TEST(Program, AnUnknownCommandNamesTheNearest) {
  const Result result = run({"trian"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("unknown command 'trian'"), std::string::npos);
  EXPECT_NE(result.err.find("did you mean lockstep train?"), std::string::npos);
  EXPECT_EQ(run({"help", "trian"}).code, 2);
  EXPECT_NE(run({"hepl"}).err.find("did you mean lockstep help?"), std::string::npos);
  EXPECT_NE(run({"zzzzzzzzz"}).err.find("lockstep --help"), std::string::npos);
  EXPECT_EQ(run({""}).err, "lockstep: the command is an empty word\n  -> lockstep --help lists them\n");
}

TEST(Program, EveryFamilyOfErrorsHasItsExitCode) {
  EXPECT_EQ(run({"user"}).code, 2);
  EXPECT_EQ(run({"user"}).err, "lockstep: x is 3, but must be even\n  -> set x=2\n");
  EXPECT_EQ(run({"users"}).err, "lockstep: 2 problems\nfirst\n  -> do a\nsecond\n");
  EXPECT_EQ(run({"system"}).code, 1);
  EXPECT_EQ(run({"system"}).err, "lockstep: open(f): no space\n");
  EXPECT_EQ(run({"bug"}).code, 70);
  EXPECT_EQ(run({"memory"}).code, 1);
  EXPECT_EQ(run({"memory"}).err, "lockstep: out of memory\n");
  EXPECT_EQ(run({"other"}).code, 1);
}

}  // namespace
}  // namespace lockstep::app
