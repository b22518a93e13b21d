// What waiting less costs: asynchronous workers learn what synchronous ones learn.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "app/train_command.h"
#include "base/json.h"

namespace lockstep::app {
namespace {

class BenchStaleness : public testing::Test {
 protected:
  /// A text that a small model learns in seconds: each of 16 letters is followed by one of four.
  void SetUp() override {
    std::mt19937 draw(1);
    std::vector<std::string> followers(16);
    for (std::string& letters : followers) {
      while (letters.size() < 4) {
        const char letter = static_cast<char>('a' + draw() % 16);
        if (letters.find(letter) == std::string::npos) letters += letter;
      }
    }
    std::string text = "a";
    while (text.size() < 60000) text += followers[static_cast<std::size_t>(text.back() - 'a')][draw() % 4];
    io::replace_file(folder_ / "text.txt", text);
    ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--tokenizer", "char", "--out", folder_ / "data"}).code, 0);
  }
  Outcome bench(std::vector<std::string> more) const {
    std::vector<std::string> all = {"bench", "staleness", "--data", (folder_ / "data").string()};
    if (std::ranges::find(more, "--ranks") == more.end()) all.insert(all.end(), {"--ranks", "3"});
    all.insert(all.end(), more.begin(), more.end());
    return lockstep(all);
  }
  TempFolder folder_;
};

TEST_F(BenchStaleness, AsynchronousWorkersLearnAsMuchFromAsManyTokens) {
  const Outcome outcome = bench({"--bounds", "4,none", "--json", "model.n_layer=1", "model.n_embd=32", "model.block_size=32",
                                 "model.batch_size=4", "train.max_iters=200", "train.eval_interval=50", "train.eval_iters=10",
                                 "optimizer.learning_rate=4e-3", "optimizer.min_lr=1e-4"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json report = Json::parse(outcome.out);
  const Json::Array& runs = report.at("runs").array();
  ASSERT_EQ(runs.size(), 5U);
  const auto loss = [&](std::size_t run) { return runs.at(run).at("val_loss").number(); };
  EXPECT_EQ(report.at("tokens").integer(), 200 * 3 * 4 * 32);
  EXPECT_EQ(loss(0), loss(1));  // DDP, and servers that wait for all gradients
  // From ln 17 nearly to ln 4, which is all that can be known.
  EXPECT_LT(loss(1), 1.5);
  EXPECT_EQ(runs.at(3).at("bound").integer(), 4);
  EXPECT_TRUE(runs.at(4).at("bound").is_null());
  for (const std::size_t run : {3, 4}) {
    EXPECT_LT(std::fabs(loss(run) / loss(1) - 1), 0.03) << outcome.out;
    EXPECT_NEAR(runs.at(run).at("difference_percent").number(), 100 * (loss(run) / loss(1) - 1), 1e-9);
    EXPECT_GE(runs.at(run).at("staleness_max").number(), runs.at(run).at("staleness_mean").number());
    EXPECT_EQ(runs.at(run).at("val_losses").array().size(), 5U);
  }
}

TEST_F(BenchStaleness, TellsItOnATerminal) {
  const Outcome outcome = lockstep({"bench", "staleness", "--ranks", "2", "--servers", "2", "--bounds", "0", "train.max_iters=4",
                                    "train.eval_interval=2", "train.eval_iters=1", "train.warmup_iters=1", "model.n_layer=1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"4 steps of 2 workers", "2 servers", "ps weights", "ps async, bound 0", "validation loss"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
}

TEST_F(BenchStaleness, BadInputIsNamed) {
  const auto refused = [&](std::vector<std::string> more, std::initializer_list<const char*> said) {
    const Outcome outcome = bench(std::move(more));
    EXPECT_EQ(outcome.code, 2);
    for (const char* part : said) EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
  };
  refused({"--ranks", "0", "--servers", "-1"}, {"--ranks 0: must be from 1", "--servers -1: must be from 1"});
  refused({"--bounds", "1,few"}, {"--bounds 1,few", "'few' is neither a number of steps nor none"});
  refused({"--bounds", ""}, {"--bounds is an empty word"});
  refused({"model.n_head=7"}, {"model.n_head"});
  refused({"--data", "/nowhere"}, {"/nowhere"});
  refused({"optimizer.learning_rate=1e6", "optimizer.weight_decay=1e6", "optimizer.grad_clip=0", "train.warmup_iters=0"},
          {"the run has diverged at step", "a lower optimizer.learning_rate"});
  const auto refused_with = [&](const char* variable, const char* value, const char* said) {
    const char* before = std::getenv(variable);
    const std::string kept = before != nullptr ? before : "";
    setenv(variable, value, 1);
    refused({}, {said});
    before != nullptr ? setenv(variable, kept.c_str(), 1) : unsetenv(variable);
  };
  refused_with("TMPDIR", "/nowhere", "no folder for temporary files");
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  refused_with("OMPI_COMM_WORLD_SIZE", "2", "bench staleness under mpiexec");
  unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace lockstep::app
