// Ranks that divide every sequence, as users start them: with evaluations, text and checkpoints on the way.

#include <gtest/gtest.h>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class ContextCommand : public TrainCommand {
 protected:
  std::vector<std::string> on(int ranks, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(run, {"--ranks", std::to_string(ranks), "train.threads=1", "model.dropout=0.1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(ContextCommand, LossesFollowThoseOfOneRank) {
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const std::vector<double> one = losses("one");
  for (const std::string method : {"allgather", "ulysses", "ring"}) {
    const Outcome outcome = lockstep(on(2, method, {"parallel.cp=2", "parallel.context=" + method}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("Layout of 2 ranks: cp=2 (" + method + ")\n"), std::string::npos) << outcome.out;
    const std::vector<double> two = losses(method);
    ASSERT_EQ(two.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-5 * one[i]) << i;
  }
}

TEST_F(ContextCommand, WhatIsWrongWithALayoutIsToldAtOnce) {
  const Outcome served = lockstep(on(3, "bad", {"parallel.cp=2", "train.backend=ps"}));
  EXPECT_EQ(served.code, 2);
  EXPECT_NE(served.err.find("parallel.cp = 2: parameter servers serve workers that have whole sequences"), std::string::npos)
      << served.err;
  const Outcome split = lockstep(on(64, "bad", {"parallel.cp=64", "parallel.context=ulysses"}));
  EXPECT_EQ(split.code, 2);
  for (const char* text : {"positions in a sequence", "heads, so a rank would get none"})
    EXPECT_NE(split.err.find(text), std::string::npos) << split.err;
}

}  // namespace
}  // namespace lockstep::app
