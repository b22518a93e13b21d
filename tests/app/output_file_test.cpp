// Files that commands write where the user says.

#include "app/folder/output_file.h"

#include <gtest/gtest.h>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

class OutputFile : public TrainCommand {
 protected:
  std::string at(const std::string& path) const { return (folder_ / path).string(); }
  std::string refusal(const std::string& path, OwnFile own = is_own_page) const {
    const std::vector<Problem> problems = check_output("--out", at(path), own);
    return problems.empty() ? "" : UserError(problems).what();
  }
};

TEST_F(OutputFile, WhatNoCommandWroteStays) {
  EXPECT_EQ(refusal("new.html"), "");
  const std::string text = file("text.txt");
  EXPECT_EQ(refusal("text.txt"), "--out " + at("text.txt") +
                                     ": a file of that name is there, and this command did not write it\n" +
                                     "  -> move it away, or name another file: --out FILE");
  io::replace_file(at("empty"), "");
  EXPECT_EQ(refusal("empty"), "");
  io::replace_file(at("page.html"), "<!DOCTYPE html>\n<html><head><title>mine</title></head></html>\n");
  EXPECT_NE(refusal("page.html"), "");
  EXPECT_NE(refusal("none/page.html").find("there is no folder " + at("none") + "\n  -> mkdir -p "), std::string::npos);
  EXPECT_NE(refusal("text.txt/page.html").find("the folder " + at("text.txt") + ": it is no folder"), std::string::npos);
  EXPECT_NE(refusal("data").find("this is a folder"), std::string::npos);
  EXPECT_NE(check_output("--out", "/dev/null", is_own_page).front().message.find("a device or a pipe"), std::string::npos);
  EXPECT_NE(check_output("--out", "/dev/stdout", is_own_page).front().message.find("this is a link"), std::string::npos);
  fs::create_symlink(at("empty"), at("link"));
  EXPECT_NE(refusal("link").find("this is a link"), std::string::npos);
  EXPECT_TRUE(check_output("--out", "", is_own_page).empty());
}

TEST_F(OutputFile, OwnFilesAreKnownByWhatTheyBeginWith) {
  EXPECT_TRUE(is_own_table("0F0,0F1,0B0\n1F0,1B0\n"));
  EXPECT_TRUE(is_own_table("12W3"));
  for (const char* text : {"", "a,b\n1,2\n", "1,2\n", "0F", "F0", "0X1", "0F1x,0B1"}) EXPECT_FALSE(is_own_table(text)) << text;
  EXPECT_FALSE(is_own_machine("name = \"x\"\nversion = 1\n"));
  EXPECT_FALSE(is_own_trace("{\"traceEvents\":[]}"));
  EXPECT_FALSE(is_own_drawing("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\">"));
  EXPECT_FALSE(is_own_recipe("[train]\n"));
  EXPECT_FALSE(is_own_logits("{\"logits\": 1}"));
}

TEST_F(OutputFile, AReportReplacesReportsAndNothingOfARun) {
  ASSERT_EQ(lockstep(words("run")).code, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(lockstep({"report", at("run"), "--html", at("run/report.html")}).code, 0);
  for (const std::string name : {"metrics.jsonl", "config.toml", "resources.json", "metrics.9.jsonl"}) {
    const Outcome refused = lockstep({"report", at("run"), "--html", at("run/" + name)});
    EXPECT_EQ(refused.code, 2) << name;
    EXPECT_NE(refused.err.find("the run of this folder writes a file of that name"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(losses("run").size(), 4U);
  for (const std::string folder : {"run/checkpoints/step_8/", "run/checkpoints/"}) {
    const Outcome inside = lockstep({"report", at("run"), "--html", at(folder + "report.html")});
    EXPECT_EQ(inside.code, 2);
    EXPECT_NE(inside.err.find("it would lie in a checkpoint"), std::string::npos) << inside.err;
  }
  io::replace_file(at("mine.html"), "<p>mine</p>");
  EXPECT_EQ(lockstep({"report", at("run"), "--html", at("mine.html")}).code, 2);
  EXPECT_EQ(file("mine.html"), "<p>mine</p>");
}

TEST_F(OutputFile, LogitsReplaceLogitsAlone) {
  ASSERT_EQ(lockstep(words("run")).code, 0);
  const std::string model = file("run/checkpoints/step_8/model.safetensors");
  io::replace_file(at("mine.safetensors"), model);
  const std::vector<std::string> eval{"eval", "--model", at("run"), "--logits"};
  const auto into = [&](const std::string& path) {
    std::vector<std::string> all = eval;
    all.push_back(at(path));
    return lockstep(all).code;
  };
  EXPECT_EQ(into("mine.safetensors"), 2);
  EXPECT_TRUE(file("mine.safetensors") == model);
  EXPECT_EQ(into("logits.safetensors"), 0);
  EXPECT_EQ(into("logits.safetensors"), 0);
}

TEST_F(OutputFile, AResumeKeepsEarlierTraces) {
  ASSERT_EQ(lockstep(words("run", {"log.trace=true", "train.max_iters=4"})).code, 0);
  const std::string first = file("run/trace.json");
  ASSERT_EQ(lockstep(words("run", {"log.trace=true", "train.init_from=resume"})).code, 0);
  EXPECT_EQ(file("run/trace.json"), first);
  EXPECT_TRUE(is_own_trace(file("run/trace.2.json")));
}

}  // namespace
}  // namespace lockstep::app
