// What a run keeps in memory, as the command is told.

#include <fmt/format.h>

#include <cstring>

#include "app/program.h"
#include "io/child.h"
#include "train_command.h"

namespace lockstep::app {
namespace {

class MemoryCommand : public TrainCommand {
 protected:
  /// What a run with more settings learnt: its checkpoint's weights and slots, byte by byte.
  std::string learnt(const std::string& run, std::vector<std::string> more) const {
    const Outcome outcome = lockstep(words(run, std::move(more)));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / run / "checkpoints" / "step_8")) {
      if (entry.path().extension() == ".safetensors") all += io::read_file(entry.path());
    }
    EXPECT_FALSE(all.empty());
    return all;
  }
};

// Linux hands the greatest resident size of who starts a program down to it (ru_maxrss).
TEST_F(MemoryCommand, ThePeakIsTheProgramsOwn) {
  constexpr std::size_t much = std::size_t{700} << 20;
  const std::unique_ptr<char[]> starter(new char[much]);
  std::memset(starter.get(), 1, much);
  std::vector<std::string> command = words("a", {"train.max_iters=2"});
  command.insert(command.begin(), program());
  const io::ChildOutcome ended = io::run_child(command, 120);
  ASSERT_EQ(ended.status, 0) << ended.err;
  const std::string before = "Memory:      ", after = " MiB resident at the most";
  const std::size_t from = ended.out.find(before) + before.size(), to = ended.out.find(after);
  ASSERT_NE(to, std::string::npos) << ended.out;
  EXPECT_LT(std::stod(ended.out.substr(from, to - from)), 600);
}

TEST_F(MemoryCommand, RecomputationTrainsTheSameModel) {
  const std::vector<std::string> common{"model.dropout=0.1", "optimizer.gas=2", "train.dtype=bf16"};
  const std::string kept = learnt("none", common);
  for (const std::string recompute : {"selective", "full", "every:2"}) {
    std::vector<std::string> more = common;
    more.push_back("memory.recompute=" + recompute);
    EXPECT_TRUE(learnt(recompute, more) == kept) << recompute;
  }
}

TEST_F(MemoryCommand, ADryRunShowsWhatRecomputationSaves) {
  const auto activations = [&](const std::string& recompute) {
    const Outcome outcome = lockstep(
        {"train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.batch_size=1", "memory.recompute=" + recompute});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::size_t at = outcome.out.find("\nactivations");
    return at == std::string::npos ? std::string() : outcome.out.substr(at + 1, outcome.out.find('\n', at + 1) - at - 1);
  };
  EXPECT_NE(activations("none").find("368.45 MiB"), std::string::npos) << activations("none");
  EXPECT_NE(activations("selective").find("235.76 MiB"), std::string::npos) << activations("selective");
  EXPECT_NE(activations("full").find("69.39 MiB"), std::string::npos) << activations("full");
}

TEST_F(MemoryCommand, BadRecomputationIsNamed) {
  const auto refused = [&](const std::string& word, const std::string& said) {
    const Outcome outcome = lockstep(words("refused", {word}));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "checkpoints"));
  };
  refused("memory.recompute=every:0", "memory.recompute = every:0: must be none, selective, full or every:k");
  refused("memory.recompute=ful", "memory.recompute = ful: must be");
  refused("memory.recompute=every:3", "memory.recompute = every:3: the model has 2 blocks to run again");
}

/// Ways to keep small moments.
const std::vector<std::vector<std::string>> small_states{
    {"optimizer.moments=bf16"},
    {"optimizer.moments=bf16", "optimizer.rounding=stochastic"},
    {"train.dtype=bf16", "optimizer.moments=bf16", "optimizer.rounding=stochastic"},
    {"train.dtype=bf16", "optimizer.master_weights=false", "optimizer.rounding=stochastic"},
    {"train.dtype=bf16", "optimizer.master_weights=false", "optimizer.moments=fp32"}};

TEST_F(MemoryCommand, SmallMomentsGoOnAsIfTheRunHadNeverStopped) {
  for (std::size_t i = 0; i < small_states.size(); ++i) {
    const std::string run = "whole" + std::to_string(i), parts = "parts" + std::to_string(i);
    const std::string whole = learnt(run, small_states[i]);
    std::vector<std::string> more = small_states[i];
    more.push_back("train.max_iters=3");
    ASSERT_EQ(lockstep(words(parts, more)).code, 0);
    EXPECT_TRUE(learnt(parts, {"train.init_from=resume", "train.max_iters=8"}) == whole) << i;
  }
}

// Servers hold ranges of units, ranks whole ones: the random numbers are the elements'.
TEST_F(MemoryCommand, EveryRankRoundsAnElementAlike) {
  const std::vector<std::string> common{"train.dtype=bf16", "optimizer.moments=bf16", "optimizer.rounding=stochastic"};
  std::vector<std::string> ranks = common, servers = common;
  ranks.insert(ranks.end(), {"--ranks", "2"});
  servers.insert(servers.end(), {"--ranks", "4", "train.backend=ps", "parallel.servers=2"});
  EXPECT_TRUE(learnt("ranks", ranks) == learnt("servers", servers));
}

TEST_F(MemoryCommand, StochasticRoundingIsAnotherRunOfItsSeed) {
  std::vector<std::string> nearest{"optimizer.moments=bf16"}, stochastic = small_states[1], seed = small_states[1];
  seed.push_back("train.seed=1338");
  const std::string first = learnt("first", stochastic);
  EXPECT_TRUE(learnt("again", stochastic) == first);
  EXPECT_FALSE(learnt("nearest", nearest) == first);
  EXPECT_FALSE(learnt("seed", seed) == first);
}

TEST_F(MemoryCommand, SmallMomentsAreSaidAndCounted) {
  const Outcome run = lockstep(words("said", small_states[1]));
  EXPECT_NE(run.out.find(", float32, seed 1337, with moments in bfloat16, rounded stochastically"), std::string::npos) << run.out;
  const auto optimizer_row = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.batch_size=1"});
    const std::string out = lockstep(std::move(more)).out;
    const std::size_t at = out.find("\noptimizer ");
    return at == std::string::npos ? out : out.substr(at + 1, out.find('\n', at + 1) - at - 1);
  };
  EXPECT_NE(optimizer_row({}).find("654.53 MiB"), std::string::npos) << optimizer_row({});
  EXPECT_NE(optimizer_row({"optimizer.moments=bf16"}).find("327.26 MiB"), std::string::npos)
      << optimizer_row({"optimizer.moments=bf16"});
}

TEST_F(MemoryCommand, BadSmallStateIsNamed) {
  const auto refused = [&](const std::string& run, const std::vector<std::string>& more, const std::string& said) {
    const Outcome outcome = lockstep(words(run, more));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  };
  refused("bad", {"optimizer.moments=fp16"}, "optimizer.moments = fp16: must be one of fp32, bf16, or null");
  refused("bad", {"optimizer.rounding=random"}, "optimizer.rounding = random: must be one of nearest, stochastic");
  refused("bad", {"optimizer.rounding=stochastic"}, "the optimizer stores nothing in bf16");
  refused("bad", {"optimizer.rounding=stochastic", "train.dtype=bf16"}, "optimizer.moments=bf16, or optimizer.rounding=nearest");
  ASSERT_EQ(lockstep(words("wide", {"train.max_iters=3"})).code, 0);
  const std::vector<std::string> resume{"train.init_from=resume", "optimizer.moments=bf16"};
  refused("wide", resume, "has moments in fp32: a run with optimizer.moments=bf16 would go on from other ones, rounded");
  refused("wide", resume, "resume with optimizer.moments=fp32");
  ASSERT_EQ(lockstep(words("small", {"train.max_iters=3", "optimizer.moments=bf16"})).code, 0);
  const Outcome wider = lockstep(words("small", {"train.init_from=resume", "optimizer.moments=fp32"}));
  EXPECT_EQ(wider.code, 0) << wider.err;
}

}  // namespace
}  // namespace lockstep::app
