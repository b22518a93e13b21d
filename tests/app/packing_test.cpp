// Whole conversations in windows, as a user types it: prepared, trained on, evaluated.

#include <gtest/gtest.h>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class PackingCommand : public TrainCommand {
 protected:
  void SetUp() override {
    std::string lines;
    for (const char* answer : {"yes", "no, but we may ask again", "perhaps so", "I do not know"}) {
      lines += std::string(R"({"messages": [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": ")") +
               answer + "\"}]}\n";
    }
    io::replace_file(folder_ / "chats.jsonl", lines);
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  Outcome prepared(const std::string& out, const std::string& length, std::vector<std::string> more = {"--pack"}) const {
    std::vector<std::string> all{"prepare", at("chats.jsonl"), "--tokenizer", "byte",  "--chat-template",
                                 "chatml",  "--length",        length,        "--out", at(out)};
    all.insert(all.end(), more.begin(), more.end());
    return lockstep(all);
  }
  std::vector<std::string> training(const std::string& data, const std::string& length,
                                    std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"train",
                                 at(data),
                                 "log.dir=" + at("run" + data),
                                 "model.block_size=" + length,
                                 "data.order=partition",
                                 "data.documents=true",
                                 "model.n_layer=2",
                                 "model.n_head=2",
                                 "model.n_embd=16",
                                 "model.position=rope",
                                 "train.max_iters=2",
                                 "train.eval_interval=1",
                                 "train.eval_iters=1",
                                 "train.log_interval=1",
                                 "sample.tokens=0",
                                 "train.warmup_iters=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

// Three conversations of 69 to 92 bytes with what ends them, and a separator between two.
TEST_F(PackingCommand, PackedConversationsTeachWhatTheyDoApart) {
  const Outcome together = prepared("together", "288");
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_NE(together.out.find("train: 3 documents in 1 window of 288 tokens, 82.6 % of which are used"), std::string::npos)
      << together.out;
  EXPECT_NE(together.out.find("model.block_size=288 data.order=partition data.documents=true"), std::string::npos);
  const Outcome apart = prepared("apart", "110");
  ASSERT_EQ(apart.code, 0) << apart.err;
  EXPECT_NE(apart.out.find("train: 3 documents in 3 windows"), std::string::npos) << apart.out;
  ASSERT_EQ(lockstep(training("together", "288", {"model.batch_size=1"})).code, 0);
  ASSERT_EQ(lockstep(training("apart", "110", {"model.batch_size=3"})).code, 0);
  for (const char* number : {"loss", "grad_norm"}) {
    const double one = lines("runtogether").front().at(number).number(), each = lines("runapart").front().at(number).number();
    EXPECT_NEAR(one, each, 1e-5 * each) << number;
  }
}

TEST_F(PackingCommand, RanksThatDivideAWindowLearnFromIt) {
  ASSERT_EQ(prepared("data", "288").code, 0);
  std::vector<std::string> words = training("data", "288", {"model.batch_size=1", "parallel.cp=2"});
  words.insert(words.begin() + 1, {"--ranks", "2"});
  const Outcome outcome = lockstep(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(PackingCommand, OtherWindowsAreRefusedWithAllThatIsWrong) {
  ASSERT_EQ(prepared("data", "288").code, 0);
  const Outcome other = lockstep({"train", at("data"), "log.dir=" + at("other"), "model.block_size=64"});
  EXPECT_EQ(other.code, 2);
  for (const char* part : {"model.block_size = 64: the windows of ", "whole documents of 288 tokens together",
                           "data.order=partition", "data.documents=true"})
    EXPECT_NE(other.err.find(part), std::string::npos) << part << "\n" << other.err;
  ASSERT_EQ(lockstep(training("data", "288", {"model.batch_size=1"})).code, 0);
  const Outcome evaluated = lockstep({"eval", at("rundata")});
  EXPECT_EQ(evaluated.code, 2);
  EXPECT_NE(evaluated.err.find("windows have whole documents"), std::string::npos) << evaluated.err;
}

TEST_F(PackingCommand, WhatCannotBePackedIsRefused) {
  const auto refused = [&](const Outcome& outcome, const std::string& message) {
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x/tokens.json"));
  };
  refused(prepared("x", "0"), "--pack: nothing says how long windows are");
  refused(prepared("x", "288", {"--pack", "--shards", "2"}), "packed windows are not cut into shards");
  refused(prepared("x", "90"), "the conversation has 91 tokens with what ends it, more than --length 90");
  io::replace_file(folder_ / "chats.jsonl", "{\"text\": \"a long one\"}\n{\"text\": \"another\"}\n");
  refused(lockstep({"prepare", at("chats.jsonl"), "--tokenizer", "byte", "--length", "8", "--pack", "--out", at("x")}),
          "--pack: a document has 11 tokens with what ends it, but a window 8");
  io::replace_file(folder_ / "plain.txt", "a text");
  refused(lockstep({"prepare", at("plain.txt"), "--length", "8", "--pack", "--out", at("x")}), "has no conversations");
}

}  // namespace
}  // namespace lockstep::app
