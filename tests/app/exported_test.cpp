// Layouts as other systems take them, and read again.

#include "app/plan/foreign/exported.h"

#include <gtest/gtest.h>

#include <random>

#include "app/plan/foreign/deepspeed_plan.h"
#include "app/plan/foreign/megatron.h"
#include "app/plan/machine_file.h"
#include "app/plan/recipe_layout.h"
#include "base/error.h"
#include "planner/enumerate.h"

namespace lockstep::app {
namespace {

struct Asked {
  const char *model, *machine;
  std::int64_t nodes, batch, positions;
};

/// Some layouts of the system, drawn.
std::vector<planner::Candidate> drawn(const planner::SearchQuestion& question, std::size_t count) {
  std::mt19937 random(11);
  std::vector<planner::Candidate> kept;
  std::size_t seen = 0;
  planner::enumerate(question, [&](const planner::Candidate& candidate) {
    if (!supports(question.work.system, candidate.plan)) return;
    ++seen;
    if (kept.size() < count) {
      kept.push_back(candidate);
    } else if (const std::size_t at = std::uniform_int_distribution<std::size_t>(0, seen - 1)(random); at < count) {
      kept[at] = candidate;
    }
  });
  return kept;
}

planner::Work work_for(const Asked& asked, const NamedModel& model, const planner::System& system) {
  return {model.model(), asked.positions, named_machine(asked.machine, asked.nodes), system};
}

/// What names, not sizes, tell apart.
arch::ModelConfig sizes_of(arch::ModelConfig model) {
  model.init = {};
  model.family = {};
  model.block_size = 0;
  if (!model.gated) model.activation = {};  // of which Megatron-LM has one
  return model;
}

TEST(Exported, WhatIsWrittenForMegatronIsReadAgain) {
  for (const Asked& asked : {Asked{"gpt3_175B", "a100", 128, 1536, 2048}, Asked{"llama3_8B", "h100", 4, 256, 8192},
                             Asked{"qwen3_8B", "h100", 2, 128, 32768}, Asked{"qwen2_7B", "h200", 1, 64, 4096},
                             Asked{"gpt2_xl", "a100", 2, 512, 1024}, Asked{"mistral_7B", "h100", 1, 64, 4096}}) {
    const NamedModel model = named_model(asked.model, asked.positions);
    const planner::Work work = work_for(asked, model, planner::megatron);
    const auto all = drawn({.work = work, .global_batch = asked.batch}, 60);
    ASSERT_EQ(all.size(), 60U) << asked.model;
    for (const planner::Candidate& candidate : all) {
      const std::string text = exported(model, work, candidate, asked.batch);
      ASSERT_TRUE(is_exported(text)) << text;
      ForeignJob job = megatron::read(text, "winner");
      EXPECT_TRUE(job.notes.empty()) << job.notes.front() << "\n" << text;
      EXPECT_EQ(job.batch, asked.batch);
      job.config.parallel.dp = candidate.plan.dp;
      job.config.optimizer.gas = candidate.plan.microbatches;
      const planner::Candidate again = candidate_of(job.config, work);
      EXPECT_EQ(again.samples, candidate.samples);
      EXPECT_EQ(again.plan, candidate.plan) << layout::describe(again.plan) << "\n"
                                            << layout::describe(candidate.plan) << "\n"
                                            << text;
      EXPECT_EQ(sizes_of(model_config(job.config, 1)), sizes_of(work.model)) << text;
    }
  }
}

TEST(Exported, WhatIsWrittenForDeepSpeedIsReadAgain) {
  for (const Asked& asked : {Asked{"gpt2_xl", "a100", 1, 64, 1024}, Asked{"llama3_8B", "h100", 4, 256, 8192}}) {
    const NamedModel model = named_model(asked.model, asked.positions);
    const planner::Work work = work_for(asked, model, planner::deepspeed);
    for (const planner::Candidate& candidate : drawn({.work = work, .global_batch = asked.batch}, 80)) {
      const std::string text = exported(model, work, candidate, asked.batch);
      ASSERT_TRUE(is_exported(text)) << text;
      const ForeignJob job = deepspeed::read(text, "ds.json");
      EXPECT_EQ(job.batch, asked.batch);
      EXPECT_TRUE(job.has_samples && job.has_steps);
      EXPECT_EQ(dtype_of(job.config), DType::bf16);
      RunConfig config = job.config;
      config.parallel.dp = candidate.plan.dp;
      planner::Candidate again = candidate_of(config, work);
      if (candidate.plan.recompute.kind == layout::Recompute::Kind::none) again.plan.recompute = {};
      EXPECT_EQ(again.samples, candidate.samples);
      EXPECT_EQ(again.plan, candidate.plan) << layout::describe(again.plan) << "\n"
                                            << layout::describe(candidate.plan) << "\n"
                                            << text;
    }
  }
}

TEST(Exported, AModelThatMegatronLacksIsRefused) {
  const Asked asked{"gemma3_1B", "h100", 1, 64, 1024};
  const NamedModel model = named_model(asked.model, asked.positions);
  const planner::Work work = work_for(asked, model, planner::megatron);
  const auto all = drawn({.work = work, .global_batch = asked.batch}, 1);
  try {
    exported(model, work, all.front(), asked.batch);
    FAIL() << "was written";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("--out: Megatron-LM has no argument for model.post_norm = true"), std::string::npos) << text;
    EXPECT_NE(text.find("model.activation = geglu"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace lockstep::app
