// A step that is counted in tokens.

#include <gtest/gtest.h>

#include "app/start/resolve.h"

namespace lockstep::settings {
namespace {

using List = std::vector<std::string>;

TEST(TokensPerStep, GiveTheMicroBatchesOfAStep) {
  const auto gas = [](std::int64_t ranks, List words) {
    words.insert(words.end(), {"model.batch_size=4", "model.block_size=128"});
    return resolve({.files = {}, .overrides = words, .ranks = ranks}).config.optimizer.gas;
  };
  EXPECT_EQ(gas(1, {"train.tokens_per_step=4096"}), 8);
  EXPECT_EQ(gas(4, {"train.tokens_per_step=4096"}), 2);
  EXPECT_EQ(gas(4, {"train.tokens_per_step=4096", "parallel.tp=2"}), 4);
  EXPECT_EQ(gas(1, {"train.tokens_per_step=4096", "optimizer.gas=8"}), 8);
  EXPECT_EQ(gas(1, {"optimizer.gas=3"}), 3);
  const auto refused = [&](std::int64_t ranks, const List& words, const std::string& message) {
    try {
      gas(ranks, words);
      ADD_FAILURE() << message;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  refused(1, {"train.tokens_per_step=5000"}, "train.tokens_per_step=4608 or 5120");
  refused(4, {"train.tokens_per_step=1000"}, "train.tokens_per_step=2048");
  refused(4, {"train.tokens_per_step=1000"}, "model.batch_size = 4 x model.block_size = 128 x 4), and they do not divide it");
  refused(1, {"train.tokens_per_step=2199023256064"}, "makes optimizer.gas = 4294967297: must be at most 1048576");
  refused(1, {"train.tokens_per_step=4096", "optimizer.gas=3"}, "optimizer.gas = 3: train.tokens_per_step = 4096 makes it 8");
}

}  // namespace
}  // namespace lockstep::settings
