#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

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
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_EQ(run({"prepare", file, "--format", "text", "--out", out}).code, 0);
  EXPECT_EQ(run({"prepare", file, "--format", "csv", "--out", out}).code, 2);
}

TEST(PrepareCommand, TakesConversations) {
  const TempFolder folder;
  const std::string file = (folder / "t.jsonl").string(), out = (folder / "out").string();
  const std::string turn = R"({"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"})";
  std::ofstream(folder / "day.jinja")
      << "{{ strftime_now('%Y') }}{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
         "{% if add_generation_prompt %}<assistant>{% endif %}";
  std::ofstream(file) << "{\"conversations\": [" << turn << ", " << turn << "]}\n{\"conversations\": [" << turn << "]}\n";
  const std::vector<std::string> words = {"prepare", file, "--tokenizer", "byte", "--out", out};
  const auto with = [&](const std::vector<std::string>& more) {
    Arguments all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const auto taught = [&] { return data::read_description(out).value().find("train.bin")->mask->targets; };
  EXPECT_EQ(with({"--chat-template", "chatml"}).code, 0);
  EXPECT_EQ(taught(), 28);  // "Yes<|im_end|>\n" twice
  EXPECT_EQ(with({"--chat-template", "chatml", "--train-on", "last"}).code, 0);
  EXPECT_EQ(taught(), 14);
  EXPECT_EQ(with({"--chat-template", "chatml", "--length", "100", "--too-long", "cut"}).code, 0);
  EXPECT_EQ(taught(), 14);
  EXPECT_EQ(with({"--chat-template", (folder / "day.jinja").string(), "--date", "1999-01-02"}).code, 0);
  std::ifstream tokens(folder / "out/train.bin", std::ios::binary);
  EXPECT_EQ(tokens.get(), '1');
  EXPECT_NE(with({}).err.find("no chat template says how a model reads these conversations"), std::string::npos);
  EXPECT_NE(with({"--chat-template", "chatml", "--length", "9"}).err.find("line 1: the conversation has 132 tokens"),
            std::string::npos);
}

TEST(PrepareCommand, RefusesOptionsThatMeanNothing) {
  const auto said = [](const std::vector<std::string>& more) {
    Arguments all = {"prepare", "t.jsonl", "--out", "x"};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = run(all);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_NE(said({"--too-long", "cut"}).find("--too-long cut: nothing says what is too long"), std::string::npos);
  EXPECT_NE(said({"--length", "-1"}).find("--length -1: must not be negative"), std::string::npos);
  EXPECT_NE(said({"--show", "-1"}).find("--show -1: must not be negative"), std::string::npos);
  EXPECT_NE(said({"--date", "today"}).find("--date today: it is no day"), std::string::npos);
  EXPECT_NE(said({"--train-on", "users"}).find("--train-on"), std::string::npos);
  EXPECT_NE(said({"--max_seq_length", "512"}).find("--length 512"), std::string::npos);
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
