#include "app/train/chosen_run.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <map>

namespace lockstep::app {
namespace {

std::map<std::string, double> values(const ChosenRun& chosen) {
  std::map<std::string, double> found;
  for (const std::string& word : chosen.settings) {
    const std::size_t equals = word.find('=');
    double value = 0;
    std::from_chars(word.data() + equals + 1, word.data() + word.size(), value);
    found[word.substr(0, equals)] = value;
  }
  return found;
}

constexpr ChoiceFacts shakespeare{.train_tokens = 1003854, .val_tokens = 111540, .vocabulary = 65, .flops_per_second = 1e11};

TEST(ChosenRun, IsWiderOnAFasterMachineAndInMoreTime) {
  double before = 0;
  for (const double rate : {1e9, 1e11, 1e12, 1e13, 1e15}) {
    ChoiceFacts facts = shakespeare;
    facts.train_tokens = 1'000'000'000'000;
    facts.flops_per_second = rate;
    const double width = values(choose_run(facts))["model.n_embd"];
    EXPECT_GE(width, before) << rate;
    before = width;
  }
  EXPECT_EQ(before, 768);
  ChoiceFacts longer = shakespeare;
  longer.minutes = 300;
  EXPECT_GT(values(choose_run(longer))["model.n_embd"], values(choose_run(shakespeare))["model.n_embd"]);
}

TEST(ChosenRun, TakesItsTimeAndASmallPartOfItToEvaluate) {
  for (const std::int64_t sequences : {1, 8}) {
    ChoiceFacts facts = shakespeare;
    facts.sequences_per_step = sequences;
    auto found = values(choose_run(facts));
    const double block = found["model.block_size"], each = found["model.batch_size"] * block;
    const double tokens = found["train.max_iters"] * each * static_cast<double>(sequences);
    // 6 N FLOPs a token and those of attention, by hand: 12 layers * width * context.
    const double width = found["model.n_embd"], layers = found["model.n_layer"];
    const double flops = 6 * (12 * layers * width * width + 65 * width) + 12 * layers * width * block;
    EXPECT_NEAR(tokens * flops / facts.flops_per_second, 180, 10);
    const double evaluated = (found["train.max_iters"] / found["train.eval_interval"] + 1) * 2 * found["train.eval_iters"] * each;
    EXPECT_LE(evaluated, 0.05 * tokens + 20 * each);
    EXPECT_LT(found["train.warmup_iters"], found["train.max_iters"]);
    EXPECT_EQ(found["optimizer.lr_decay_iters"], found["train.max_iters"]);
  }
}

TEST(ChosenRun, ShowsAShortTextNoMoreThanFortyTimes) {
  ChoiceFacts facts = shakespeare;
  facts.train_tokens = 10000;
  facts.val_tokens = 1200;
  const ChosenRun chosen = choose_run(facts);
  auto found = values(chosen);
  EXPECT_NEAR(found["train.max_iters"] * found["model.batch_size"] * found["model.block_size"], 40 * 10000, 2048);
  EXPECT_NE(chosen.line.find(", 40 times the text"), std::string::npos) << chosen.line;
  EXPECT_NE(chosen.line.find("seconds here"), std::string::npos) << chosen.line;
  facts.train_tokens = 300;
  facts.val_tokens = 33;
  EXPECT_EQ(values(choose_run(facts))["model.block_size"], 8) << "a window has to fit";
}

TEST(ChosenRun, HasMultiplesOfTheLeastChoice) {
  const auto least = values({.settings = least_choice(), .line = ""});
  for (const double rate : {1e9, 1e11, 1e13, 1e15}) {
    ChoiceFacts facts = shakespeare;
    facts.train_tokens = 1'000'000'000'000;
    facts.flops_per_second = rate;
    auto found = values(choose_run(facts));
    for (const char* key : {"model.n_layer", "model.n_head", "model.n_embd", "model.block_size", "model.batch_size"})
      EXPECT_EQ(std::fmod(found[key], least.at(key)), 0) << key << rate;
  }
}

}  // namespace
}  // namespace lockstep::app
