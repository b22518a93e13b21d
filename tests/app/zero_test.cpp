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
  for (const std::string level : {"memory.zero=1", "memory.zero=2", "memory.zero=3"}) {
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
  for (const std::string level : {"memory.zero=1", "memory.zero=3"}) {
    ASSERT_EQ(lockstep(on(3, level, {level, "train.dump_step=2"})).code, 0);
    EXPECT_TRUE(file(level + "/dump_step_2.safetensors") == file("whole/dump_step_2.safetensors"));
  }
}

TEST_F(ZeroCommand, HostsShareOutByThemselves) {
  ASSERT_EQ(lockstep(on(4, "whole")).code, 0);
  const std::string node = "memory.zero_group=node";
  ASSERT_EQ(lockstep(on(4, "hosts", {"memory.zero=3", node, "parallel.ranks_per_host=2"})).code, 0);
  EXPECT_EQ(losses("hosts"), losses("whole"));
  EXPECT_TRUE(weights("hosts", 8) == weights("whole", 8));
  const Outcome refused = lockstep(on(3, "bad", {"memory.zero=1", node, "parallel.ranks_per_host=2"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("memory.zero_group = node: 3 ranks do not divide by the 2 of a host"), std::string::npos)
      << refused.err;
}

TEST_F(ZeroCommand, ADryRunSaysWhatIsKept) {
  const auto dry = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = on(4, "none", {"--dry-run"});
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(dry({}).find("memory.zero ="), std::string::npos);
  EXPECT_NE(dry({"train.backend=zero1"}).find("memory.zero = 1: each rank has 1/4 of the optimizer's state"), std::string::npos);
  const std::string waits = dry({"memory.zero=2"});
  EXPECT_NE(waits.find("memory.zero = 2: each rank has 1/4 of the optimizer's state and gradients"), std::string::npos) << waits;
  EXPECT_NE(waits.find("parallel.reduce = step: gradients are whole until the last of 2 micro-batches"), std::string::npos);
  EXPECT_NE(waits.find("parallel.reduce=microbatch (other bits) keeps"), std::string::npos) << waits;
  EXPECT_EQ(dry({"memory.zero=2", "optimizer.gas=1"}).find("gradients are whole"), std::string::npos);
  EXPECT_EQ(dry({"memory.zero=3", "parallel.reduce=microbatch"}).find("gradients are whole"), std::string::npos);
}

TEST_F(ZeroCommand, ContradictionsAreNamed) {
  expect_refused({"memory.zero=4"}, {"memory.zero = 4", "at most 3"});
  expect_refused({"train.backend=zero1", "memory.zero=2"}, {"train.backend = zero1 means memory.zero = 1", "memory.zero = 2"});
  expect_refused({"train.backend=FSDP", "memory.zero=0"}, {"train.backend = FSDP means memory.zero = 3", "memory.zero = 0"});
  expect_refused({"train.backend=ps", "memory.zero=1"}, {"memory.zero = 1: parameter servers have the optimizer's state"});
  expect_refused({"train.backend=ds", "parallel.broadcast_start=true"},
                 {"parallel.broadcast_start = true: with memory.zero = 1"});
}

}  // namespace
}  // namespace lockstep::app
