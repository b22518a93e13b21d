// Answers are preferred as a user types it: prepared, compared with the weights of the start, resumed, refused.

#include <gtest/gtest.h>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class Preferences : public TrainCommand {
 protected:
  void SetUp() override {
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      const std::string question = "What is " + std::to_string(i) + "?", number = std::to_string(i * 7);
      lines += R"({"prompt": ")" + question + R"(", "chosen": " It is )" + number + R"(.", "rejected": " )" + number + "\"}\n";
    }
    io::replace_file(folder_ / "pairs.jsonl", lines);
    ASSERT_EQ(lockstep({"prepare", at("pairs.jsonl"), "--tokenizer", "byte", "--length", "32", "--out", at("data")}).code, 0);
    io::replace_file(folder_ / "text.txt", std::string(2000, 'a') + "It is 7. What is 3?\n");
    ASSERT_EQ(lockstep({"prepare", at("text.txt"), "--tokenizer", "byte", "--out", at("text")}).code, 0);
    ASSERT_EQ(lockstep(base()).code, 0);
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> base() const {
    return {"train",
            at("text"),
            "log.dir=" + at("base"),
            "model.vocab_size=256",
            "model.n_layer=2",
            "model.n_head=2",
            "model.n_embd=16",
            "model.block_size=32",
            "train.max_iters=2",
            "train.eval_interval=2",
            "train.eval_iters=1",
            "sample.tokens=0",
            "train.warmup_iters=0"};
  }
  std::vector<std::string> preferring(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"train",
                                 at("data"),
                                 "log.dir=" + at(run),
                                 "train.init_from=" + at("base"),
                                 "train.objective=dpo",
                                 "data.order=partition",
                                 "model.batch_size=4",
                                 "train.max_iters=6",
                                 "train.eval_interval=3",
                                 "train.eval_iters=1",
                                 "train.log_interval=1",
                                 "sample.tokens=0",
                                 "train.warmup_iters=0",
                                 "optimizer.learning_rate=3e-3",
                                 "optimizer.min_lr=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> references() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "data")) {
      if (const std::string name = entry.path().filename().string(); name.starts_with("references-")) files.push_back(name);
    }
    return files;
  }
};

TEST_F(Preferences, BeginAtTheReferenceAndLearnWhichAnswerIsBetter) {
  const Outcome outcome = lockstep(preferring("run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("rewards/accuracies"), std::string::npos) << outcome.out;
  const std::vector<Json> steps = lines("run");
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_NEAR(steps.front().at("loss").number(), std::log(2.0), 1e-6);  // the model is its own reference
  for (const char* name : {"rewards/margins", "rewards/chosen", "rewards/rejected"})
    EXPECT_NEAR(steps.front().at(name).number(), 0, 1e-5) << name;
  EXPECT_LT(steps.front().at("logps/chosen").number(), -10);
  EXPECT_GT(steps.back().at("rewards/margins").number(), 0.01);
  EXPECT_EQ(steps.back().at("rewards/accuracies").number(), 1);
  EXPECT_LT(steps.back().at("loss").number(), 0.69);
  EXPECT_GT(lines("run", true).back().at("rewards/margins").number(), 0.01);
  EXPECT_EQ(references().size(), 1U);
}

TEST_F(Preferences, ReferencesAreOfWeightsAndTextAndMadeOnce) {
  ASSERT_EQ(lockstep(preferring("one")).code, 0);
  const Outcome again = lockstep(preferring("two", {"dpo.beta=0.3"}));
  EXPECT_NE(again.out.find("References: " + at("data/references-")), std::string::npos) << again.out;
  EXPECT_EQ(references().size(), 1U);
  ASSERT_EQ(lockstep(preferring("three", {"train.init_from=" + at("one")})).code, 0);
  EXPECT_EQ(references().size(), 2U);
  // The same weights are another reference where the model makes something else of them.
  ASSERT_EQ(lockstep(preferring("four", {"adapter.rank=2"})).code, 0);
  ASSERT_EQ(lockstep(preferring("five", {"adapter.rank=2", "adapter.alpha=64"})).code, 0);
  EXPECT_EQ(references().size(), 4U);
}

TEST_F(Preferences, AResumeComparesWithWhatTheRunBeganWith) {
  ASSERT_EQ(lockstep(preferring("whole")).code, 0);
  ASSERT_EQ(lockstep(preferring("run", {"train.max_iters=3", "optimizer.decay_lr=false"})).code, 0);
  ASSERT_EQ(lockstep(preferring("long", {"optimizer.decay_lr=false"})).code, 0);
  const std::vector<std::string> on{"train", "log.dir=" + at("run"), "train.init_from=resume", "train.max_iters=6"};
  const Outcome outcome = lockstep(on);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(losses("run"), losses("long"));
  std::filesystem::remove(folder_ / "data" / references().front());
  const Outcome gone = lockstep({"train", "log.dir=" + at("run"), "train.init_from=resume", "train.max_iters=8"});
  EXPECT_EQ(gone.code, 2);
  EXPECT_NE(gone.err.find("is not there: it has the log-probabilities that the run compares with"), std::string::npos)
      << gone.err;
}

TEST_F(Preferences, DamagedReferencesAreRefused) {
  ASSERT_EQ(lockstep(preferring("one")).code, 0);
  const std::string file = "data/" + references().front();
  const std::string good = this->file(file);
  const auto refused = [&](const std::string& content, const std::string& message) {
    io::replace_file(folder_ / file, content);
    const Outcome outcome = lockstep(preferring("two"));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  };
  refused(good.substr(0, good.size() / 2), "not valid JSON");
  std::string other = good;
  const std::size_t digit = other.find("\"weights\":") + 12;
  other[digit] = other[digit] == '0' ? '1' : '0';
  refused(other, "it is of other weights or another text");
  Json edited = Json::parse(good);
  Json::Array numbers = edited.at("train").array();
  numbers.front() = numbers.front().number() + 1;
  refused(edited.set("train", numbers).dump(), "its numbers are not those that were measured");
  refused(Json::parse(good).set("val", Json::Array{1.0}).dump(), "\"val\" has 1 numbers, and the text ");
}

TEST_F(Preferences, RanksShareThePass) {
  ASSERT_EQ(lockstep(preferring("one", {"optimizer.gas=2", "model.batch_size=2"})).code, 0);
  std::filesystem::remove(folder_ / "data" / references().front());
  std::vector<std::string> words = preferring("two", {"parallel.pp=2", "parallel.dp=2", "model.batch_size=2"});
  words.insert(words.begin() + 1, {"--ranks", "4"});
  const Outcome outcome = lockstep(words);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Json> one = lines("one"), two = lines("two");
  for (std::size_t i = 0; i < one.size(); ++i) {
    for (const char* name : {"loss", "rewards/margins", "logps/rejected", "rewards/accuracies"})
      EXPECT_NEAR(one[i].at(name).number(), two[i].at(name).number(), 1e-4) << name << " " << i;
  }
}

TEST_F(Preferences, WhatCannotBePreferredIsRefused) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& message) {
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
  };
  refused(preferring("x", {"model.batch_size=3"}), "model.batch_size = 3: with train.objective = dpo both samples of a pair");
  refused(preferring("x", {"data.io=readers"}), "data.io = readers: with train.objective = dpo");
  refused(preferring("x", {"train.objective=lm"}), "train.objective = lm: the windows of ");
  std::vector<std::string> text = preferring("x", {"train.objective=dpo"});
  text[1] = at("text");
  refused(text, "has no pairs");
  text.push_back("train.objective=sft");
  refused(text, "does not say which of its tokens are taught");
  refused({"eval", at("base"), at("data")}, "windows have whole documents");
}

}  // namespace
}  // namespace lockstep::app
