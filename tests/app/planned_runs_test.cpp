// What `plan search` may answer, `train` takes: drawn layouts are dry-run, whatever machine they are for.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "app/plan/machine_file.h"
#include "app/plan/named_model.h"
#include "app/plan/search/winner.h"
#include "app/train_command.h"
#include "planner/activations.h"
#include "planner/enumerate.h"
#include "support/temp_folder.h"

namespace lockstep::app {
namespace {

struct Asked {
  const char *model, *machine;
  std::int64_t nodes, batch, positions;
};

/// One layout of each kind, drawn from those that are looked at. Kinds differ in schedule, ZeRO level, places of state and
/// activations, or recomputation.
std::vector<planner::Candidate> one_of_each_kind(const planner::SearchQuestion& question, std::mt19937& random) {
  using Kind = std::tuple<std::string, int, layout::Tier, layout::Tier, layout::Tier, layout::Recompute::Kind>;
  std::map<Kind, std::pair<planner::Candidate, int>> drawn;
  planner::enumerate(question, [&](const planner::Candidate& candidate) {
    const layout::ParallelPlan& plan = candidate.plan;
    auto& [kept, seen] = drawn[{plan.schedule, layout::zero_level(plan), plan.optimizer.tier, plan.parameters.tier,
                                plan.activations, plan.recompute.kind}];
    if (std::uniform_int_distribution<int>(0, seen++)(random) == 0) kept = candidate;
  });
  std::vector<planner::Candidate> all;
  for (const auto& [kind, found] : drawn) all.push_back(found.first);
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

// Two hundred in all; what this host lacks (memory) is told and refuses no dry run.
TEST(PlannedRuns, TrainTakesWhatPlanSearchMayAnswer) {
  std::mt19937 random(7);
  for (const Asked& asked : {Asked{"gpt2", "a100", 1, 64, 1024}, Asked{"gpt2_xl", "h100", 16, 1024, 1024},
                             Asked{"llama3_8B", "h100", 16, 512, 8192}, Asked{"gpt3_175B", "a100", 128, 1536, 2048}}) {
    const NamedModel model = named_model(asked.model, asked.positions);
    planner::Machine machine = named_machine(asked.machine, asked.nodes);
    machine.disk_rate = 5e9;
    const planner::Work work(model.model(), asked.positions, machine, planner::own_system);
    std::vector<planner::Candidate> drawn = one_of_each_kind({.work = work, .global_batch = asked.batch}, random);
    ASSERT_GE(drawn.size(), 50U);
    drawn.resize(50);
    for (const planner::Candidate& candidate : drawn) {
      std::vector<std::string> words{"train",
                                     "--dry-run",
                                     "data.root_path=/nowhere",
                                     model.setting,
                                     "model.block_size=" + std::to_string(asked.positions),
                                     "parallel.ranks_per_host=8"};
      for (const std::string& setting : settings_of(work, candidate)) words.push_back(setting);
      const Outcome dry = lockstep(words);
      EXPECT_EQ(dry.code, 0) << asked.model << " " << layout::describe(candidate.plan) << "\n" << dry.err;
    }
  }
}

// Statistics, which the plan leaves out, are a hundredth at most.
TEST(PlannedRuns, WhatBlocksKeepIsWhatADryRunCounts) {
  for (const char* name : {"gpt2", "llama3_1B", "qwen3_0.6B", "gemma3_270M"}) {
    const arch::ModelConfig model = named_model(name, 512).model();
    const Outcome dry = lockstep({"train", "--dry-run", "data.root_path=/nowhere", fmt::format("model={}", name),
                                  "model.block_size=512", "model.batch_size=2", "model.vocab_size=50257"});
    ASSERT_EQ(dry.code, 0) << dry.err;
    const std::size_t line = dry.out.find("\nh.0 to ");
    ASSERT_NE(line, std::string::npos) << dry.out;
    // The line is "h.0 to h.11  parameters  gradients  optimizer  activations  ...": each size is a number and its unit.
    std::istringstream words(dry.out.substr(line + 1));
    std::string word, unit;
    double size = 0;
    for (int i = 0; i < 3; ++i) words >> word;
    for (int i = 0; i < 4; ++i) words >> size >> unit;
    ASSERT_TRUE(unit == "MiB" || unit == "GiB") << dry.out.substr(line, 200);
    const double counted = size * (unit == "MiB" ? 1 << 20 : 1 << 30);
    const double kept = planner::kept_bytes(model, {2, 512}, {}, layout::Recompute::Kind::none, 4);
    EXPECT_NEAR(kept * static_cast<double>(model.layers) / counted, 1, 0.015) << name;
  }
}

TEST(PlannedRuns, ARunsFolderStandsForItsRecipe) {
  const TempFolder folder;
  io::replace_file(folder / "config.toml", "[model]\nn_layer = 3\nvocab_size = 65\n");
  io::replace_file(folder / "config.json", "{}");
  EXPECT_EQ(named_model(folder.path().string(), 0).config.model.n_layer, 3);
}

TEST(PlannedRuns, ADryRunOfMoreRanksThanAMachineStartsShowsRankZero) {
  const std::vector<std::string> words{
      "train",          "--dry-run",     "model=gpt3_175B",   "data.root_path=/nowhere", "parallel.tp=8",
      "parallel.pp=16", "parallel.dp=8", "optimizer.gas=192", "model.vocab_size=51200"};
  const Outcome dry = lockstep(words);
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("Layout of 1024 ranks"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("None of the 1,024 ranks was started: the tables are those of rank 0"), std::string::npos) << dry.out;
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--ranks", "1000"});
  const Outcome other = lockstep(more);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("= 1024 ranks, but there are 1000"), std::string::npos) << other.err;
  const Outcome chosen = lockstep({"train", "--dry-run", "--ranks", "65", "data.root_path=/nowhere"});
  EXPECT_EQ(chosen.code, 2);
  EXPECT_NE(chosen.err.find("--ranks 65: a model is chosen by what ranks measure"), std::string::npos) << chosen.err;
}

TEST(PlannedRuns, ADryRunOfManyRanksCountsParameterServers) {
  const Outcome dry = lockstep({"train", "--dry-run", "model=gpt2", "data.root_path=/nowhere", "model.vocab_size=50257",
                                "--ranks", "100", "train.backend=ps", "parallel.servers=4", "optimizer.gas=1"});
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("Memory of rank 0, a worker"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("Memory of the first server"), std::string::npos) << dry.out;
}

}  // namespace
}  // namespace lockstep::app
