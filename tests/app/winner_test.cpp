// The settings of a layout that the planner found.

#include "app/plan/search/winner.h"

#include <gtest/gtest.h>

#include "app/plan/recipe_layout.h"
#include "app/settings/config_file.h"
#include "arch/shard_rules.h"
#include "planner/enumerate.h"

namespace lockstep::app {
namespace {

TEST(Winner, ARecipeAsksForTheLayoutThatItWasMadeOf) {
  constexpr std::int64_t positions = 8192, one_of = 41;
  planner::Machine machine = *planner::find_machine("a100");
  machine.nodes = 2;
  machine.devices = 4;
  machine.memory = 12e9;
  const NamedModel model = named_model("gpt2", positions);
  const planner::SearchQuestion question{.work = planner::Work(model.model(), positions, machine), .global_batch = 16};
  const layout::PlanLimits limits = arch::plan_limits(question.work.model, positions);
  std::int64_t looked = 0, compared = 0;
  bool node = false, together = false, elsewhere = false, ring = false;
  planner::enumerate(question, [&](const planner::Candidate& candidate) {
    const layout::ParallelPlan& plan = candidate.plan;
    if (++looked % one_of != 0 || !layout::check(plan, limits, machine.ranks()).empty()) return;
    RunConfig config;
    const std::string recipe = to_toml(recipe_of(model, question.work, candidate));
    ASSERT_TRUE(read_config_text(recipe, "recipe.toml", config).empty()) << recipe;
    planner::Candidate again = candidate_of(config, question.work);
    again.plan.split = plan.split;
    EXPECT_EQ(again.samples, candidate.samples);
    EXPECT_EQ(again.plan, plan) << layout::describe(again.plan) << "\n" << layout::describe(plan);
    ++compared;
    node = node || plan.parameters.cut == layout::CutOver::host;
    together = together || plan.recompute.every > 1;
    elsewhere = elsewhere || plan.activations != layout::Tier::device;
    ring = ring || (plan.cp > 1 && plan.context == layout::ContextMethod::ring);
  });
  EXPECT_GT(compared, 100);
  EXPECT_TRUE(node && together && elsewhere && ring);
}

TEST(Winner, ARecipesOwnLayoutIsNotPartOfAnother) {
  NamedModel model = named_model("gpt2", 1024);
  model.config.parallel.tp = 4;
  model.config.parallel.bucket_bytes = 1 << 20;
  const planner::Work work(model.model(), 1024, *planner::find_machine("a100"));
  planner::Candidate candidate;
  candidate.plan.dp = 8;
  const RunConfig recipe = recipe_of(model, work, candidate);
  EXPECT_EQ(recipe.parallel.tp, 1);
  EXPECT_EQ(recipe.parallel.dp, 8);
  EXPECT_EQ(recipe.parallel.bucket_bytes, 1 << 20) << "which formulas do not tell apart";
}

}  // namespace
}  // namespace lockstep::app
