// Ranks on different processors: here, ranks that ask for different instruction sets.

#include <gtest/gtest.h>

#include "app/start/resolve.h"
#include "app/start/session.h"
#include "app/train/train_rank.h"
#include "app/train_command.h"
#include "base/json.h"
#include "base/timer.h"
#include "comm/thread/thread_world.h"
#include "ops/cpu/options.h"

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
    comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
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
  comm::run_ranks(3, {.timeout = 60}, [&](comm::Communicator& world) {
    const Session session(1, {.isa = world.rank() == 1 ? ops::Isa::baseline : ops::Isa::automatic}, world, Transport::thread);
    EXPECT_EQ(session.isa(), ops::Isa::baseline);
    const std::string said = "kernels for baseline, as rank 1 has no wider one (rank 0 has " + best + ")";
    EXPECT_NE(session.description().find(said), std::string::npos) << session.description();
  });
  comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
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
  if (ops::available_isas().front() == ops::Isa::amx) GTEST_SKIP() << "this processor has all instruction sets";
  EXPECT_THROW(comm::run_ranks(2, {.timeout = 60},
                               [](comm::Communicator& world) {
                                 const Session session(1, {.isa = world.rank() == 1 ? ops::Isa::amx : ops::Isa::automatic}, world,
                                                       Transport::thread);
                               }),
               UserError);
}

// numerics.md: AVX2 against AVX-512 in fp32, a whole run.
TEST_F(RanksOfManyProcessors, WithFusedMultiplyAddLearnTheSame) {
  std::vector<std::string> runs;
  for (const ops::Isa isa : ops::available_isas()) {
    if (isa == ops::Isa::baseline) continue;
    runs.emplace_back(ops::name_of(isa));
    const Outcome outcome = lockstep(words(runs.back(), {"numerics.isa=" + runs.back()}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  if (runs.size() < 2) GTEST_SKIP() << "this processor has one instruction set with fused multiply-add";
  for (const std::string& run : runs) EXPECT_TRUE(weights(run) == weights(runs.front())) << run;
}

// One that would not take pairs keeps all from it.
TEST_F(RanksOfManyProcessors, AddBf16ProductsInOneOrder) {
  for (const ops::Bf16Order first : {ops::Bf16Order::widened, ops::Bf16Order::pairs}) {
    comm::run_ranks(2, {.timeout = 60}, [&](comm::Communicator& world) {
      const Session session(1, {.bf16 = world.rank() == 0 ? first : ops::Bf16Order::pairs}, world, Transport::thread);
      EXPECT_EQ(session.bf16_order(), first);
    });
  }
}

class OrderOfBf16Products : public TrainCommand {
 protected:
  Arguments half(const std::string& run, std::vector<std::string> more) const {
    more.insert(more.begin(), {"train.dtype=bf16", "train.threads=1", "train.max_iters=4"});
    return words(run, more);
  }
  std::string weights(const std::string& run, int step) const {
    return file(run + "/checkpoints/step_" + std::to_string(step) + "/model.safetensors");
  }
};

TEST_F(OrderOfBf16Products, IsSaidAndStoredAsAWord) {
  const std::string usual(ops::name_of(ops::usual_bf16_order()));
  const Outcome outcome = lockstep(half("auto", {"numerics.bf16=auto"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE((outcome.out + outcome.err).find("(numerics.bf16=" + usual + ")"), std::string::npos) << outcome.out;
  EXPECT_NE(file("auto/config.toml").find("bf16 = \"" + usual + "\""), std::string::npos) << file("auto/config.toml");
  const Json manifest = Json::parse(file("auto/checkpoints/step_4/manifest.json"));
  EXPECT_EQ(manifest.at("run").at("config").at("numerics").at("bf16").string(), usual);
}

// Both orders run on every processor, and a resume keeps the run's, whatever the processor would choose.
TEST_F(OrderOfBf16Products, IsKeptByAResume) {
  for (const std::string order : {"pairs", "widened"}) {
    const std::string whole = order + "-whole", parts = order + "-parts";
    ASSERT_EQ(lockstep(half(whole, {"numerics.bf16=" + order})).code, 0);
    ASSERT_EQ(lockstep(half(parts, {"numerics.bf16=" + order, "train.max_iters=2"})).code, 0);
    const Outcome outcome = lockstep(half(parts, {"numerics.bf16=auto", "train.init_from=resume"}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(weights(whole, 4) == weights(parts, 4)) << order;
  }
  EXPECT_FALSE(weights("pairs-whole", 4) == weights("widened-whole", 4));
  const Outcome other = lockstep(half("pairs-whole", {"numerics.bf16=widened", "train.init_from=resume"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("numerics.bf16 = widened"), std::string::npos) << other.err;
}

// Without the instruction pairs have the same bits, slowly.
TEST_F(OrderOfBf16Products, OfPairsIsTheSameOnEveryInstructionSet) {
  std::vector<std::string> runs;
  for (const ops::Isa isa : ops::available_isas()) {
    if (isa == ops::Isa::baseline) continue;
    runs.emplace_back(ops::name_of(isa));
    ASSERT_EQ(lockstep(half(runs.back(), {"numerics.bf16=pairs", "numerics.isa=" + runs.back()})).code, 0);
  }
  for (const std::string& run : runs) EXPECT_TRUE(weights(run, 4) == weights(runs.front(), 4)) << run;
}

}  // namespace
}  // namespace lockstep::app
