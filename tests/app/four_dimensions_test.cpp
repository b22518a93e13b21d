// Samples, layers, sequences and stages divided at once, as a user starts it: sixteen ranks learn Tiny Shakespeare as one does.
// LOCKSTEP_RUN_STEPS says for how many steps (make parity: 50).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "app/train_command.h"
#include "support/largest.h"
#include "support/test_data.h"

namespace lockstep::app {
namespace {

class FourDimensions : public TrainCommand {
 protected:
  void SetUp() override {
    const std::filesystem::path text = test_data("tinyshakespeare.txt");
    if (!std::filesystem::exists(text)) GTEST_SKIP() << text << " is absent";
    ASSERT_EQ(lockstep({"prepare", text.string(), "--tokenizer", "char", "--out", folder_ / "data"}).code, 0);
  }
  static int steps() {
    const char* const wish = std::getenv("LOCKSTEP_RUN_STEPS");
    return wish == nullptr ? 5 : std::atoi(wish);
  }
  /// One loss a step: AdamW at a constant learning rate of 1e-3, in fp32.
  std::vector<double> train(const std::string& run, std::vector<std::string> more) {
    std::vector<std::string> all =
        words(run, {"model.n_layer=4", "model.n_head=4", "model.n_embd=64", "model.block_size=64", "model.batch_size=4",
                    "model.dropout=0", "optimizer.learning_rate=1e-3", "optimizer.decay_lr=false", "train.warmup_iters=0",
                    "train.threads=1", "train.log_interval=1", "train.eval_interval=1000", "train.eval_iters=1",
                    "sample.tokens=0", fmt::format("train.max_iters={}", steps())});
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return losses(run);
  }
};

TEST_F(FourDimensions, SixteenRanksFollowOne) {
  const std::vector<double> one = train("one", {"optimizer.gas=4"});
  ASSERT_EQ(one.size(), static_cast<std::size_t>(steps()));
  std::vector<std::pair<std::string, std::vector<std::string>>> layouts{
      {"ring", {"parallel.sequence=true"}}, {"allgather", {}}, {"ulysses", {"parallel.schedule=zb-h1", "memory.zero=1"}}};
  if (steps() < 50) layouts.resize(1);  // a sample
  for (auto [method, words] : layouts) {
    words.insert(words.end(), {"--ranks", "16", "parallel.dp=2", "parallel.tp=2", "parallel.cp=2", "parallel.pp=2",
                               "optimizer.gas=2", "parallel.context=" + method});
    const std::vector<double> many = train(method, words);
    ASSERT_EQ(many.size(), one.size());
    const double most = support::largest_difference(many, one);
    EXPECT_LE(most, 1e-4) << method;
    fmt::print("dp=2, tp=2, cp=2 ({}), pp=2: {} steps, losses from {:.4f} to {:.4f}, differ by at most {:.1e}\n", method,
               one.size(), one.front(), one.back(), most);
  }
}

}  // namespace
}  // namespace lockstep::app
