// Ranks that cut their state, as a user types them.

#include <gtest/gtest.h>

#include "app/train_command.h"

namespace lockstep::app {
namespace {

class ZeroCommand : public TrainCommand {
 protected:
  std::vector<std::string> on(int ranks, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(
        run, {"--ranks", std::to_string(ranks), "model.batch_size=1", "optimizer.gas=2", "train.threads=1", "model.dropout=0.1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string weights(const std::string& run, int step) const {
    return file(run + "/checkpoints/step_" + std::to_string(step) + "/model.safetensors");
  }
  void expect_refused(const std::vector<std::string>& more, const std::vector<std::string>& texts) const {
    const Outcome refused = lockstep(on(2, "bad", more));
    EXPECT_EQ(refused.code, 2);
    for (const std::string& text : texts) EXPECT_NE(refused.err.find(text), std::string::npos) << refused.err;
  }
};

// Evaluating, writing text and saving on the way.
TEST_F(ZeroCommand, LevelsLearnTheSameBits) {
  ASSERT_EQ(lockstep(on(3, "whole")).code, 0);
  for (const std::string level : {"memory.zero=1"}) {
    const Outcome outcome = lockstep(on(3, level, {level}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(losses(level), losses("whole"));
    EXPECT_TRUE(weights(level, 8) == weights("whole", 8));
  }
}

TEST_F(ZeroCommand, ARunGoesOnAtAnyLevel) {
  ASSERT_EQ(lockstep(on(2, "whole")).code, 0);
  ASSERT_EQ(lockstep(on(2, "parts", {"train.max_iters=3", "train.backend=zero1"})).code, 0);
  const Outcome resumed =
      lockstep(on(2, "parts", {"train.init_from=resume", "train.max_iters=8", "train.backend=DDP", "memory.zero=0"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(resumed.err, "");
  EXPECT_TRUE(weights("whole", 8) == weights("parts", 8));
}

TEST_F(ZeroCommand, AStepIsDumpedWhole) {
  ASSERT_EQ(lockstep(on(3, "whole", {"train.dump_step=2"})).code, 0);
  for (const std::string level : {"memory.zero=1"}) {
    ASSERT_EQ(lockstep(on(3, level, {level, "train.dump_step=2"})).code, 0);
    EXPECT_TRUE(file(level + "/dump_step_2.safetensors") == file("whole/dump_step_2.safetensors"));
  }
}

TEST_F(ZeroCommand, ContradictionsAreNamed) {
  expect_refused({"memory.zero=4"}, {"memory.zero = 4", "at most 3"});
  expect_refused({"train.backend=zero1", "memory.zero=2"}, {"train.backend = zero1 means memory.zero = 1", "memory.zero = 2"});
  expect_refused({"train.backend=FSDP", "memory.zero=0"}, {"train.backend = FSDP means memory.zero = 3", "memory.zero = 0"});
  expect_refused({"train.backend=ps", "memory.zero=1"}, {"memory.zero = 1: with train.backend = ps the servers have"});
  expect_refused({"train.backend=ds", "parallel.broadcast_start=true"},
                 {"parallel.broadcast_start = true: with memory.zero = 1"});
}

}  // namespace
}  // namespace lockstep::app
