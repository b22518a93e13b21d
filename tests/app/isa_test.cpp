// Ranks on different processors: here, ranks that ask for different instruction sets.

#include <gtest/gtest.h>

#include "app/session.h"
#include "app/settings/resolve.h"
#include "app/train_command.h"
#include "app/train_rank.h"
#include "base/timer.h"
#include "comm/thread/thread_world.h"

namespace lockstep::app {
namespace {

class RanksOfManyProcessors : public TrainCommand {
 protected:
  void SetUp() override {
    if (ops::available_isas().front() == ops::Isa::baseline) GTEST_SKIP() << "this processor has one instruction set";
    TrainCommand::SetUp();
  }
  /// A training on two ranks, of which rank 1 has no more than `limit`; what it prints.
  std::string train(const std::string& run, ops::Isa limit) const {
    Arguments settings = words(run, {"train.threads=1"});
    settings.erase(settings.begin());
    const RunConfig config = settings::resolve({.files = {}, .overrides = settings}).config;
    testing::internal::CaptureStdout();
    comm::run_ranks(2, {}, [&](comm::Communicator& world) {
      Session session(1, {.isa = world.rank() == 1 ? limit : ops::Isa::automatic}, world, Transport::thread);
      train_rank(config, {settings, now_seconds(), run, false}, session);
    });
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  }
  std::string weights(const std::string& run) const { return file(run + "/checkpoints/step_8/model.safetensors"); }
};

TEST_F(RanksOfManyProcessors, TakeWhatAllOfThemHave) {
  const std::string best(ops::name_of(ops::available_isas().front()));
  comm::run_ranks(3, {}, [&](comm::Communicator& world) {
    const Session session(1, {.isa = world.rank() == 1 ? ops::Isa::baseline : ops::Isa::automatic}, world, Transport::thread);
    EXPECT_EQ(session.isa(), ops::Isa::baseline);
    const std::string said = "kernels for baseline, as rank 1 has no wider one (rank 0 has " + best + ")";
    EXPECT_NE(session.description().find(said), std::string::npos) << session.description();
  });
  comm::run_ranks(2, {}, [&](comm::Communicator& world) {
    const Session session(1, {}, world, Transport::thread);
    EXPECT_TRUE(session.description().ends_with("kernels for " + best)) << session.description();
  });
}

TEST_F(RanksOfManyProcessors, LearnWhatRanksOfTheNarrowestLearn) {
  const std::string said = train("mixed", ops::Isa::baseline);
  EXPECT_NE(said.find("kernels for baseline, as rank 1 has no wider one"), std::string::npos) << said;
  const std::string alike = train("wide", ops::Isa::automatic);
  EXPECT_EQ(alike.find("no wider one"), std::string::npos) << alike;
  const Outcome narrow = lockstep(words("narrow", {"--ranks", "2", "train.threads=1", "numerics.isa=baseline"}));
  ASSERT_EQ(narrow.code, 0) << narrow.err;
  EXPECT_TRUE(weights("mixed") == weights("narrow"));
  EXPECT_FALSE(weights("mixed") == weights("wide"));
}

TEST_F(RanksOfManyProcessors, OneThatThisMachineLacksIsRefusedByItsRank) {
  if (ops::available_isas().front() == ops::Isa::avx512_bf16) GTEST_SKIP() << "this processor has all instruction sets";
  EXPECT_THROW(comm::run_ranks(2, {},
                               [](comm::Communicator& world) {
                                 const Session session(1,
                                                       {.isa = world.rank() == 1 ? ops::Isa::avx512_bf16 : ops::Isa::automatic},
                                                       world, Transport::thread);
                               }),
               UserError);
}

}  // namespace
}  // namespace lockstep::app
