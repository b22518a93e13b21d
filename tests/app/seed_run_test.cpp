// The talk's run (configs/seed.toml): the loss that it begins with and the text that it writes meanwhile, on any text of as many
// characters. And the curves of runs on Tiny Shakespeare beside those that others published.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>

#include "app/train_command.h"
#include "base/number_text.h"
#include "support/test_data.h"

namespace lockstep::app {
namespace {

class SeedRun : public TrainCommand {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("configs/seed.toml")) GTEST_SKIP() << "run from the source folder";
    constexpr std::string_view alphabet = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static_assert(alphabet.size() == 65, "as many as Tiny Shakespeare has");
    std::string text;
    for (std::size_t i = 0; i < 20000; ++i) text += alphabet[i * i % 97 % alphabet.size()];
    io::replace_file(folder_ / "seed.txt", text + std::string(alphabet));
    ASSERT_EQ(lockstep({"prepare", folder_ / "seed.txt", "--tokenizer", "char", "--out", folder_ / "data"}).code, 0);
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

/// Losses of a file of curves by step and column: of batches, of the training text, of the other.
std::map<std::pair<int, int>, double> curve_in(const std::filesystem::path& file) {
  std::map<std::pair<int, int>, double> losses;
  std::istringstream lines(io::read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> cells = parts_of_list(line);
    const auto step = number_from<int>(cells[0]);
    for (int column = 1; step && column < std::ssize(cells); ++column) {
      if (const auto loss = number_from<double>(cells[static_cast<std::size_t>(column)])) losses[{*step, column}] = *loss;
    }
  }
  return losses;
}

// WordPlay's notebook: 10.65 M parameters; bench/reference.sh trains it anew, for some five hours of one core.
TEST(ReferenceCurve, OfWordPlaysModelIsWithinATenthOfThePublishedOne) {
  if (!std::filesystem::exists("bench/reference-char.csv")) GTEST_SKIP() << "run from the source folder";
  const auto published = curve_in("bench/reference-char.csv"), here = curve_in("docs/reference-runs/char.csv");
  EXPECT_EQ(published.at({50, 1}), 2.5077);
  int compared = 0;
  for (const auto& [place, loss] : published) {
    const auto own = here.find(place);
    if (own == here.end()) continue;
    EXPECT_NEAR(own->second, loss, 0.1) << "step " << place.first;
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

// The program that is tested here goes the way that the kept curve went.
TEST_F(TrainCommand, TheReferenceCurveIsTheProgramsStill) {
  const std::filesystem::path text = test_data("tinyshakespeare.txt");
  if (!std::filesystem::exists(text)) GTEST_SKIP() << text << " is absent: set LOCKSTEP_TEST_DATA";
  if (!std::filesystem::exists("configs/shakespeare-cpu.toml")) GTEST_SKIP() << "run from the source folder";
  ASSERT_EQ(lockstep({"prepare", text.string(), "--tokenizer", "char", "--out", folder_ / "plays"}).code, 0);
  const Outcome outcome =
      lockstep({"train", "--config", "configs/shakespeare-cpu.toml", "data.dir=" + (folder_ / "plays").string(),
                "log.dir=" + (folder_ / "run").string(), "train.max_iters=40", "train.eval_interval=1000", "train.eval_iters=1",
                "sample.tokens=0", "train.log_interval=10", "log.style=wordplay"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto kept = curve_in("docs/reference-runs/cpu.csv");
  int compared = 0;
  for (const Json& line : lines("run")) {
    const auto loss = kept.find({static_cast<int>(line.at("step").integer()), 1});
    if (loss == kept.end()) continue;
    EXPECT_NEAR(line.at("loss").number(), loss->second, 0.01) << line.dump();
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

}  // namespace
}  // namespace lockstep::app
