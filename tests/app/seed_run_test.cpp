// The talk's run on Tiny Shakespeare (configs/seed.toml): the loss that it begins with and the text that it writes meanwhile.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "app/train_command.h"
#include "support/test_data.h"

namespace lockstep::app {
namespace {

class SeedRun : public TrainCommand {
 protected:
  void SetUp() override {
    const std::filesystem::path text = test_data("tinyshakespeare.txt");
    if (!std::filesystem::exists(text)) GTEST_SKIP() << text << " is absent: set LOCKSTEP_TEST_DATA";
    if (!std::filesystem::exists("configs/seed.toml")) GTEST_SKIP() << "run from the source folder";
    ASSERT_EQ(lockstep({"prepare", text.string(), "--tokenizer", "char", "--out", folder_ / "data"}).code, 0);
  }
  Outcome run(std::vector<std::string> more) const {
    std::vector<std::string> words{"train", "--config", "configs/seed.toml", "data.dir=" + (folder_ / "data").string(),
                                   "log.dir=" + (folder_ / "run").string()};
    words.insert(words.end(), more.begin(), more.end());
    return lockstep(words);
  }
};

// All 85 M weights; of the text less than the run reads.
TEST_F(SeedRun, TheFirstLossIsThatOfGuesses) {
  const Outcome outcome = run({"train.eval_only=true", "train.eval_iters=4", "model.batch_size=1", "model.block_size=128"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string said = "step 0: train loss ";
  const std::size_t at = outcome.out.find(said);
  ASSERT_NE(at, std::string::npos) << outcome.out;
  double train = 0, val = 0;
  ASSERT_EQ(std::sscanf(outcome.out.c_str() + at + said.size(), "%lf, val loss %lf", &train, &val), 2);
  for (const double loss : {train, val}) {  // 4.13 in the talk
    EXPECT_GE(loss, 4.0);
    EXPECT_LE(loss, 4.6);
  }
}

// The recipe's prompt and length; a smaller model writes as many.
TEST_F(SeedRun, ASampleHas271Characters) {
  const Outcome outcome = run({"train.max_iters=1", "train.eval_iters=1", "model.n_layer=1", "model.n_head=2", "model.n_embd=32",
                               "model.block_size=64", "model.batch_size=2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("['prompt']: 'What is an LLM?'"), std::string::npos) << outcome.out;
  const std::string said = "['response']:\n\n";
  const std::size_t at = outcome.out.find(said);
  ASSERT_NE(at, std::string::npos) << outcome.out;
  constexpr std::size_t characters = 15 + 256;
  const std::string text = outcome.out.substr(at + said.size(), characters + 1);
  EXPECT_TRUE(text.starts_with("What is an LLM?"));
  EXPECT_EQ(text.size(), characters + 1);
  // The next line of the log follows.
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(outcome.out.at(at + said.size() + characters + 1), '[');
}

}  // namespace
}  // namespace lockstep::app
