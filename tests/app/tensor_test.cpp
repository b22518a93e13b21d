// Ranks that divide every layer, as a user starts them.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "app/train_command.h"
#include "io/safetensors.h"

namespace lockstep::app {
namespace {

class TensorCommand : public TrainCommand {
 protected:
  std::vector<std::string> on(int ranks, const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = words(run, {"--ranks", std::to_string(ranks), "train.threads=1", "model.dropout=0.1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void expect_refused(int ranks, const std::vector<std::string>& more, const std::vector<std::string>& texts) const {
    const Outcome refused = lockstep(on(ranks, "bad", more));
    EXPECT_EQ(refused.code, 2);
    for (const std::string& text : texts) EXPECT_NE(refused.err.find(text), std::string::npos) << refused.err;
  }
};

// Evaluating, writing text and saving on the way.
TEST_F(TensorCommand, LossesFollowThoseOfOneRank) {
  const Outcome alone = lockstep(on(1, "one"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.out.find("not by dp, gas, tp and cp (numerics.canonical=true: by these too)\n"), std::string::npos)
      << alone.out;
  const std::vector<double> one = losses("one");
  for (const std::string sequence : {"parallel.sequence=false", "parallel.sequence=true"}) {
    const Outcome outcome = lockstep(on(2, sequence, {"parallel.tp=2", sequence}));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(sequence.ends_with("true") ? "Layout of 2 ranks: tp=2 sequence\n" : "Layout of 2 ranks: tp=2\n"),
              std::string::npos)
        << outcome.out;
    const std::vector<double> two = losses(sequence);
    ASSERT_EQ(two.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-5 * one[i]) << i;
  }
}

// A run and its resumption in other layouts have the bits of one rank.
TEST_F(TensorCommand, ACanonicalRunDoesNotDependOnItsLayout) {
  const auto canonical = [&](int ranks, const std::string& run, std::vector<std::string> more) {
    more.insert(more.end(), {"numerics.canonical=true", "optimizer.grad_clip=0.1", "train.log_interval=1"});
    const Outcome outcome = lockstep(on(ranks, run, more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  const Outcome one = canonical(1, "one", {"model.batch_size=4"});
  EXPECT_NE(one.out.find("8 fixed ranges (numerics.canonical=true)"), std::string::npos) << one.out;
  EXPECT_EQ(one.out.find("Bits: "), std::string::npos) << one.out;
  canonical(2, "samples", {"model.batch_size=2"});
  canonical(2, "tensor", {"model.batch_size=2", "optimizer.gas=2", "parallel.tp=2", "parallel.sequence=true"});
  canonical(2, "parts", {"model.batch_size=4", "parallel.tp=2", "train.max_iters=3"});
  canonical(2, "parts", {"model.batch_size=2", "memory.zero=3", "train.init_from=resume"});
  for (const std::string run : {"samples", "tensor", "parts"}) EXPECT_EQ(losses(run), losses("one")) << run;
  const Outcome other = lockstep(on(1, "one", {"model.batch_size=4", "train.init_from=resume", "numerics.canonical=false"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("numerics.canonical = false: the run of"), std::string::npos) << other.err;
}

TEST_F(TensorCommand, ADryRunSaysWhatCanonicalSumsTake) {
  const Outcome dry = lockstep(on(2, "dry", {"numerics.canonical=true", "model.batch_size=2", "optimizer.gas=2", "--dry-run"}));
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("numerics.canonical = true: sums by ranges take "), std::string::npos) << dry.out;
}

TEST_F(TensorCommand, WhatCanonicalSumsCannotDoIsRefusedAtOnce) {
  expect_refused(
      2, {"numerics.canonical=true", "parallel.cp=2", "parallel.context=ring", "optimizer.gas=3", "numerics.products=library"},
      {"parallel.context = ring: numerics.canonical = true", "data-parallel ranks x optimizer.gas = 3",
       "numerics.products = library: the library adds"});
  expect_refused(3, {"numerics.canonical=true", "train.backend=ps"}, {"numerics.canonical = true: parameter servers add up"});
}

TEST_F(TensorCommand, ARunGoesOnInAnotherLayout) {
  ASSERT_EQ(lockstep(on(2, "parts", {"train.max_iters=3", "parallel.tp=2", "parallel.sequence=true"})).code, 0);
  const auto go_on = [&](int ranks, int steps, std::vector<std::string> more) {
    more.insert(more.end(), {"train.init_from=resume", "train.max_iters=" + std::to_string(steps)});
    const Outcome resumed = lockstep(on(ranks, "parts", more));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
  };
  go_on(2, 5, {"parallel.tp=1", "parallel.sequence=false", "model.batch_size=1", "memory.zero=3"});
  go_on(2, 8, {"parallel.tp=2", "parallel.broadcast_start=true", "memory.zero=0"});
  ASSERT_EQ(lockstep(on(1, "one")).code, 0);
  const std::vector<double> one = losses("one"), parts = losses("parts");
  EXPECT_NEAR(parts.back(), one.back(), 1e-4 * one.back());
}

// Ranks that share a sample read the same file.
TEST_F(TensorCommand, GroupsOfRanksReadShardsThatWereCut) {
  ASSERT_EQ(lockstep({"prepare", folder_ / "text.txt", "--tokenizer", "char", "--out", folder_ / "data", "--shards", "2"}).code,
            0);
  ASSERT_EQ(lockstep(on(2, "two", {"data.shards=precut"})).code, 0);
  const Outcome four = lockstep(on(4, "four", {"data.shards=precut", "parallel.tp=2"}));
  ASSERT_EQ(four.code, 0) << four.err;
  const std::vector<double> two = losses("two"), more = losses("four");
  ASSERT_EQ(more.size(), two.size());
  for (std::size_t i = 0; i < two.size(); ++i) EXPECT_NEAR(more[i], two[i], 1e-5 * two[i]) << i;
}

TEST_F(TensorCommand, AStepIsDumpedWhole) {
  ASSERT_EQ(lockstep(on(1, "one", {"train.dump_step=0"})).code, 0);
  ASSERT_EQ(lockstep(on(2, "two", {"train.dump_step=0", "parallel.tp=2"})).code, 0);
  const std::string one = file("one/dump_step_0.safetensors"), two = file("two/dump_step_0.safetensors");
  ASSERT_EQ(two.size(), one.size());
  const io::SafetensorsHeader header = io::parse_safetensors(std::as_bytes(std::span(one)), one.size(), "one");
  for (const io::SafetensorsEntry& entry : header.entries) {
    if (entry.dtype != "F32") continue;
    const auto values = [&](const std::string& dump) {
      std::vector<float> all(entry.bytes / sizeof(float));
      std::memcpy(all.data(), dump.data() + entry.offset, entry.bytes);
      return all;
    };
    const std::vector<float> a = values(one), b = values(two);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
      size += std::pow(static_cast<double>(a[i]), 2);
    }
    EXPECT_LE(std::sqrt(difference), 1e-5 * std::max(std::sqrt(size), 1e-4)) << entry.name;
  }
}

TEST_F(TensorCommand, ModelsAreReadByRanksThatDivideThem) {
  ASSERT_EQ(lockstep(on(2, "run", {"parallel.tp=2"})).code, 0);
  const std::string run = (folder_ / "run").string();
  const Outcome one = lockstep({"eval", "--model", run, "--json"});
  ASSERT_EQ(one.code, 0) << one.err;
  const double loss = Json::parse(one.out).at("loss").number();
  for (const std::vector<std::string>& layout : {std::vector<std::string>{"--layout", "tp=2"}, {"--layout", "dp=2,tp=2"}}) {
    std::vector<std::string> words{"eval", "--model", run, "--json", "--logits", run + "/logits"};
    words.insert(words.end(), layout.begin(), layout.end());
    const Outcome outcome = lockstep(words);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NEAR(Json::parse(outcome.out).at("loss").number(), loss, 1e-5 * loss);
    words = {"generate", "--model", run, "--prompt", "the", "--samples", "3", "--tokens", "20"};
    const Outcome text = lockstep(words);
    ASSERT_EQ(text.code, 0) << text.err;
    words.insert(words.end(), layout.begin(), layout.end());
    EXPECT_EQ(lockstep(words).out, text.out);
  }
  const Outcome refused = lockstep({"eval", "--model", run, "--ranks", "3", "--layout", "tp=2,zero=1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--ranks 3 and --layout tp=2,zero=1: a layout says how many ranks there are"), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("zero=1 in the layout tp=2,zero=1: it means nothing here\n  -> words are dp, tp, pp"),
            std::string::npos)
      << refused.err;
  const Outcome many = lockstep({"generate", "--model", run, "--layout", "tp=8"});
  EXPECT_EQ(many.code, 2);
  EXPECT_NE(many.err.find(": tp = 8"), std::string::npos) << many.err;
}

TEST_F(TensorCommand, ADryRunSaysWhatRanksTake) {
  const auto note = [&](const std::string& heads, const std::string& width) {
    const Outcome dry = lockstep(on(2, "none", {"--dry-run", "parallel.tp=2", "model.n_head=" + heads, "model.n_embd=" + width}));
    EXPECT_EQ(dry.code, 0) << dry.err;
    EXPECT_NE(dry.out.find("Layout of 2 ranks: tp=2\n"), std::string::npos) << dry.out;
    const std::string says = "parallel.tp = 2: each rank has a part of every layer, ";
    const std::size_t first = dry.out.find(says);
    EXPECT_NE(first, std::string::npos) << dry.out;
    return dry.out.substr(first + says.size(), dry.out.find(" to train in", first) - first - says.size());
  };
  const std::string uneven = note("3", "18");
  EXPECT_NE(uneven.find(" to "), std::string::npos) << uneven;
}

TEST_F(TensorCommand, WhatIsWrongWithALayoutIsToldAtOnce) {
  expect_refused(3, {"parallel.tp=2", "parallel.dp=2", "memory.recompute=every:99"},
                 {"dp 2 x tp 2 x cp 1 x pp 1 = 4 ranks, but there are 3", "memory.recompute = every:99"});
  expect_refused(2, {"parallel.sequence=true"}, {"parallel.sequence = true: there is no tensor parallelism"});
  expect_refused(64, {"parallel.tp=64", "parallel.sequence=true"}, {"the model has", "heads", "positions in a sequence"});
  expect_refused(3, {"parallel.tp=2", "parallel.sequence=true", "train.backend=ps"},
                 {"parallel.tp = 2: parameter servers serve workers that have whole layers",
                  "parallel.sequence = true: workers of parameter servers have whole sequences"});
  expect_refused(4, {"parallel.tp=4", "parallel.ranks_per_host=2", "model.n_head=4", "model.n_embd=16"},
                 {"parallel.tp = 4: a host's 2 ranks do not divide by it"});
}

}  // namespace
}  // namespace lockstep::app
