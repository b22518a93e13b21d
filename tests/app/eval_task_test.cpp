// Tasks as a user types them: the same numbers for every layout, and what is wrong with a question.

#include <gtest/gtest.h>

#include <algorithm>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class EvalTask : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    ASSERT_EQ(lockstep(words("run", {"train.max_iters=60", "train.eval_interval=60", "model.block_size=64", "model.n_embd=32",
                                     "optimizer.learning_rate=0.01"}))
                  .code,
              0);
    file("choices.jsonl", R"({"context": "the quick brown fox 1 jumps over the", "choices": ["lazy dog.", "zzzz"], "answer": 0})"
                          "\n"
                          R"({"context": "the quick", "choices": ["dog", "brown fox", "over"], "answer": 1})"
                          "\n");
    file("words.jsonl", "{\"text\": \"the quick brown\"}\n{\"text\": \"over the lazy\"}\n{\"text\": \"the lazy dog.\"}\n");
    // What the model writes is the first answer.
    const std::string prompt = "fox 1 jumps over the lazy";
    const Outcome written =
        lockstep({"generate", at("run"), "--prompt", prompt, "--tokens", "40", "--temperature", "0", "--color", "never"});
    const std::string line = written.out.substr(prompt.size(), written.out.find('\n') - prompt.size());
    file("answers.jsonl",
         Json(Json::Object{{"prompt", prompt}, {"answer", line}}).dump() + "\n{\"prompt\": \"a\", \"answer\": \"zz\"}\n");
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void file(const std::string& name, const std::string& text) const { io::replace_file(folder_ / name, text); }
  Outcome judged(std::vector<std::string> more) const {
    std::vector<std::string> all{
        "eval",   at("run"),          "--task", at("choices.jsonl"), "--task", "lambada:" + at("words.jsonl"),
        "--task", at("answers.jsonl")};
    all.insert(all.end(), more.begin(), more.end());
    return lockstep(all);
  }
};

TEST_F(EvalTask, NumbersAreThoseOfLmEvalsNames) {
  const Outcome outcome = judged({"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  const Json& choices = json.at("results").at("choices");
  for (const char* metric : {"acc", "acc_norm", "acc_bytes", "acc_tokens"}) {
    EXPECT_EQ(choices.at(std::string(metric) + ",none").number(), 1) << metric;
    EXPECT_EQ(choices.at(std::string(metric) + "_stderr,none").number(), 0) << metric;
  }
  EXPECT_GT(json.at("results").at("words").at("perplexity,none").number(), 1);
  EXPECT_EQ(json.at("n-samples").at("words").at("effective").integer(), 3);
  EXPECT_EQ(json.at("results").at("answers").at("exact_match,none").number(), 0.5) << outcome.out;
}

TEST_F(EvalTask, LayoutsGiveTheSameNumbers) {
  const Outcome one = judged({"--json", "--threads", "1"});
  ASSERT_EQ(one.code, 0) << one.err;
  for (const char* layout : {"dp=2", "pp=2", "dp=3"}) EXPECT_EQ(judged({"--json", "--layout", layout}).out, one.out) << layout;
  const Outcome parts = judged({"--json", "--layout", "tp=2"});
  EXPECT_EQ(Json::parse(parts.out).at("results").at("choices").dump(), Json::parse(one.out).at("results").at("choices").dump());
}

TEST_F(EvalTask, DocumentsAreReadInWindowsWithAStride) {
  file("documents.jsonl", "{\"text\": \"" + std::string(100, 'x') + " the quick brown fox\"}\n");
  const auto perplexity = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", at("run"), "--task", at("documents.jsonl"), "--json"});
    const Outcome outcome = lockstep(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out).at("results").at("documents").at("token_perplexity,none").number();
  };
  EXPECT_NE(perplexity({"--stride", "16"}), perplexity({}));
}

TEST_F(EvalTask, ARunIsJudgedAtEachEvaluation) {
  const std::string tasks = "eval.tasks=" + at("choices.jsonl") + ",lambada:" + at("words.jsonl");
  for (const char* layout : {"memory.zero=3", "parallel.pp=2", "parallel.tp=2"}) {
    const std::string run = std::string("judged") + layout;
    std::vector<std::string> all = words(run, {tasks, layout, "model.batch_size=2", "model.block_size=64"});
    all.insert(all.begin() + 1, {"--ranks", "2"});
    const Outcome outcome = lockstep(all);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("step 8: choices: acc "), std::string::npos) << outcome.out;
    const std::string rows = io::read_file(folder_ / run / "tasks.jsonl");
    EXPECT_EQ(std::ranges::count(rows, '\n'), 3) << rows;
    const Json last = Json::parse(rows.substr(rows.rfind('\n', rows.size() - 2) + 1));
    const Outcome eval = lockstep({"eval", at(run), "--checkpoint", "last", "--task", "lambada:" + at("words.jsonl"), "--json"});
    ASSERT_EQ(eval.code, 0) << eval.err;
    const double again = Json::parse(eval.out).at("results").at("words").at("perplexity,none").number();
    EXPECT_NEAR(last.at("words").at("perplexity").number() / again, 1, 1e-5);
  }
}

TEST_F(EvalTask, WhatCannotBeIsRefused) {
  const auto refused = [&](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), {"eval", at("run")});
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  };
  refused({"--task", at("choices.jsonl"), "--split", "val"}, "a task is a text of its own");
  refused({"--task", at("none.jsonl")}, "none.jsonl");
  file("bad.jsonl", "{\"context\": \"a\"}\n");
  refused({"--task", at("bad.jsonl")}, "bad.jsonl, line 1: \"answer\" is no text");
}

}  // namespace
}  // namespace lockstep::app
