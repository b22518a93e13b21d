// What people type who come from other programs, and the short forms of settings.

#include <gtest/gtest.h>

#include "app/cli/commands.h"
#include "app/settings/foreign/other_words.h"
#include "app/settings/keys.h"
#include "app/sweep/sweep_plan.h"
#include "app/train/train_words.h"
#include "base/error.h"

namespace lockstep::app {
namespace {

RunConfig config_of(const Arguments& words) { return settings::resolve(read_train_words(words)->sources).config; }

std::vector<std::string> problems_of(const Arguments& words) {
  std::vector<std::string> found;
  try {
    config_of(words);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems()) found.push_back(problem.message + " -> " + problem.remedy);
  }
  return found;
}

TEST(Words, ASettingIsWrittenWithoutItsGroupWhereItsNameIsUnique) {
  const RunConfig config = config_of({"max_iters=500", "learning_rate=3e-4", "n_layer=2"});
  EXPECT_EQ(config.train.max_iters, 500);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(config.model.n_layer, 2);
  EXPECT_EQ(problems_of({"name=x"}).size(), 1U) << "optimizer.name or log.name";
  EXPECT_EQ(problems_of({"max_itters=5"}),
            (std::vector<std::string>{"unknown group max_itters -> did you mean train.max_iters=5?"}));
}

TEST(Words, ASettingIsWrittenAsAnOption) {
  const RunConfig config = config_of({"--max-iters", "7", "--learning_rate", "1e-3", "--weight-decay=0.2", "--warmup_iters", "1",
                                      "--sequence", "--overlap", "false", "--tp", "2", "--zero=1", "--log-interval", "1"});
  EXPECT_EQ(config.train.max_iters, 7);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(config.optimizer.weight_decay, 0.2);
  EXPECT_TRUE(config.parallel.sequence);
  EXPECT_FALSE(config.parallel.overlap);
  EXPECT_EQ(config.parallel.tp, 2);
  EXPECT_EQ(config.memory.zero, 1);
  EXPECT_EQ(problems_of({"--tp"}), (std::vector<std::string>{"--tp has no value -> write it in one word: --tp=VALUE"}));
}

TEST(Words, NamesOfNanoGptMeanWhatTheyMeanThereInEachForm) {
  EXPECT_EQ(config_of({"--out-dir", "runs/a"}).log.dir, "runs/a");
  EXPECT_EQ(config_of({"--out_dir=runs/a"}).log.dir, "runs/a");
  EXPECT_EQ(config_of({"--gradient-accumulation-steps", "4"}).optimizer.gas, 4);
}

TEST(Words, AnIntegerMayBeWrittenWithAnExponent) {
  EXPECT_EQ(config_of({"max_iters=1e6"}).train.max_iters, 1'000'000);
  EXPECT_EQ(problems_of({"max_iters=1.5"}).size(), 1U);
  EXPECT_EQ(problems_of({"max_iters=1e300"}).size(), 1U);
}

TEST(Words, ThoseOfOtherProgramsAreAnsweredWithTheRightOneAndItsValue) {
  const std::vector<std::pair<Arguments, std::string>> asked{
      {{"--lr", "3e-4"}, "unknown option --lr -> here it is optimizer.learning_rate=3e-4"},
      {{"-lr", "3e-4"}, "unknown option -lr -> here it is optimizer.learning_rate=3e-4"},
      {{"--num_train_epochs=3"}, "unknown option --num_train_epochs=3 -> here it is train.max_epochs=3"},
      {{"--tensor-model-parallel-size", "8"}, "unknown option --tensor-model-parallel-size -> here it is parallel.tp=8"},
      {{"--gradient_checkpointing"}, "unknown option --gradient_checkpointing -> here it is memory.recompute=full"},
      {{"--wd"}, "unknown option --wd -> here it is optimizer.weight_decay=VALUE"},
      {{"--bf16", "train.max_iters=5"}, "unknown option --bf16 -> here it is train.dtype=bf16"},
      {{"lora_r=8"}, "unknown setting lora_r -> here it is adapter.rank=8"},
      {{"num_train_epochs=3"}, "unknown setting num_train_epochs -> here it is train.max_epochs=3"},
      {{"--lora_dropout", "0.1"},
       "unknown option --lora_dropout -> here it is adapter.rank=N without dropout, which adapters do not have"},
      {{"--fp16"},
       "unknown option --fp16 -> here it is train.dtype=bf16, which has fp32's range, so that it needs no loss scaler; there is "
       "no fp16"}};
  for (const auto& [words, said] : asked) EXPECT_EQ(problems_of(words), std::vector<std::string>{said});
  EXPECT_EQ(problems_of({"--lr", "1", "--epochs", "2"}).size(), 2U);
}

// A run goes on in its own folder; train.init_from=FOLDER would take its weights alone.
TEST(Words, AResumeIsTheSettingThatResumes) {
  EXPECT_EQ(problems_of({"--load=runs/a"}), (std::vector<std::string>{"unknown option --load=runs/a -> here it is "
                                                                      "log.dir=runs/a train.init_from=resume, where that is a "
                                                                      "run's folder"}));
  for (const std::string word : {"--resume", "--resume_from_checkpoint=True", "--resume-from-checkpoint"}) {
    ASSERT_EQ(problems_of({word}).size(), 1U) << word;
    EXPECT_NE(problems_of({word})[0].find("here it is train.init_from=resume with log.dir=FOLDER, the run's"), std::string::npos);
  }
}

TEST(Words, ACommandIsAnsweredWithItsOwnOptionsAlone) {
  const auto refusal = [](const Command& command, const Arguments& words) {
    try {
      command.run(words);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const Arguments& words : {Arguments{"run", "--max-new-tokens=5"}, {"run", "--max_new_tokens", "5"}})
    EXPECT_NE(refusal(chat_command(), words).find("here it is --tokens 5"), std::string::npos);
  EXPECT_TRUE(refusal(serve_command(), {"run", "--start=x"}).starts_with("unknown option --start=x\n  -> did you mean "))
      << "it has no --prompt";
  EXPECT_NE(refusal(serve_command(), {"--ckpt=x"}).find("here it is --model x"), std::string::npos);
}

TEST(Words, EachRightWordIsASettingOfThisProgram) {
  const std::vector<std::string> known = known_words(WordsOf::settings);
  EXPECT_GE(known.size(), 60U);
  for (const std::string& word : known) {
    const std::string right = other_words(WordsOf::settings)(word, "1")->right;
    const std::string name = right.substr(0, right.find_first_of("= "));
    const bool other = name == "--ranks" || name == "--config" || name == "lockstep" || name == "model";
    EXPECT_TRUE(other || (settings::find_key(name) != nullptr && name.find('.') != name.npos)) << word << ": " << right;
    const std::size_t wrong = word == "--gradient-accumulation-steps" ? 0 : 1;  // nanoGPT's
    EXPECT_EQ(problems_of({word, "1"}).size(), wrong) << word;
  }
}

TEST(Words, ASweepTakesShortNamesToo) {
  std::vector<Problem> problems;
  const SweepWords words = sweep_words({"learning_rate=1e-3,1e-4", "n_layer=2"}, problems);
  ASSERT_EQ(words.axes.size(), 1U);
  EXPECT_EQ(words.axes[0].key, "optimizer.learning_rate");
  EXPECT_EQ(words.fixed, std::vector<std::string>{"n_layer=2"});
  EXPECT_TRUE(problems.empty());
}

}  // namespace
}  // namespace lockstep::app
