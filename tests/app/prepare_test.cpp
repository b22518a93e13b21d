#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "app/cli/commands.h"
#include "data/token_description.h"
#include "support/capture.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

struct Result {
  int code;
  std::string err;
};

Result run(const Arguments& arguments) {
  const std::vector<Command> commands{prepare_command()};
  Capture out, err;
  const int code = run_program(commands, arguments, out.file(), err.file());
  return {code, err.text()};
}

TEST(PrepareCommand, WritesAFolderOfTokens) {
  const TempFolder folder;
  std::ofstream(folder / "t.txt") << "hello world";
  const std::string out = (folder / "deep/out").string();
  EXPECT_EQ(run({"prepare", (folder / "t.txt").string(), "--tokenizer", "byte", "--out", out, "--threads", "2"}).code, 0);
  const data::TokenDescription description = data::read_description(out).value();
  EXPECT_EQ(description.format.vocabulary, 256);
  EXPECT_EQ(description.find("train.bin")->tokens, 9);
}

TEST(PrepareCommand, ReportsEveryProblem) {
  const Result result = run({"prepare", "text.txt", "--threads", "-1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("--out is missing"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--threads -1"), std::string::npos) << result.err;
  EXPECT_EQ(run({"prepare"}).code, 2);
  EXPECT_EQ(run({"prepare", "text.txt", "--out", "x", "--tokenizer", "words"}).code, 2);
}

TEST(PrepareCommand, TellsBadLinesOfJsonl) {
  const TempFolder folder;
  const std::string file = (folder / "t.jsonl").string(), out = (folder / "out").string();
  std::ofstream(file) << "{\"text\": \"fine\"}\n{\"txt\": \"\"}\nnonsense\n";
  const Result result = run({"prepare", file, "--out", out});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find(file + ", line 2: it has no \"text\""), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(file + ", line 3: not valid JSON"), std::string::npos) << result.err;
  EXPECT_TRUE(std::filesystem::is_empty(out));
  EXPECT_EQ(run({"prepare", file, "--format", "text", "--out", out}).code, 0);
  EXPECT_EQ(run({"prepare", file, "--format", "csv", "--out", out}).code, 2);
}

TEST(PrepareCommand, FailsOnAMissingText) {
  const TempFolder folder;
  const Result result = run({"prepare", (folder / "none.txt").string(), "--out", (folder / "out").string()});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("none.txt"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace lockstep::app
