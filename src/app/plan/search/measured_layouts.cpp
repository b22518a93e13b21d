#include "app/plan/search/measured_layouts.h"

#include "app/start/assemble.h"
#include "app/start/plan.h"
#include "app/start/session.h"
#include "base/median.h"
#include "lab/step/step_training.h"

namespace lockstep::app {
namespace {

constexpr int rounds = 3, warm_up = 2, timed = 3;

/// Adds to `seconds` those of a few steps.
void time_steps(const RunConfig& recipe, std::int64_t ranks, std::int64_t vocabulary, std::vector<double>& seconds) {
  run_on_ranks({.ranks = ranks}, [&](Session& session) {
    const arch::ModelConfig model = model_config(recipe, vocabulary);
    const layout::ParallelPlan plan = plan_of(recipe, model, session.world(), session.runtime().device());
    const lab::StepShape shape{.name = "this layout",
                               .vocabulary = model.vocabulary,
                               .samples = recipe.model.batch_size * plan.microbatches * plan.dp,
                               .positions = recipe.model.block_size};
    lab::StepTraining training(assemble(recipe, {.vocabulary = model.vocabulary}, plan), shape, session.runtime(), session.ops(),
                               session.world());
    for (int step = 0; step < warm_up + timed; ++step) {
      train::StepResult result;
      const double time = training.timed_step(result);
      if (session.lead() && step >= warm_up) seconds.push_back(time);
    }
  });
}

}  // namespace

std::vector<double> measured_steps(const std::vector<RunConfig>& recipes, std::int64_t ranks, std::int64_t vocabulary) {
  std::vector<std::vector<double>> seconds(recipes.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < recipes.size(); ++i) time_steps(recipes[i], ranks, vocabulary, seconds[i]);
  }
  std::vector<double> medians;
  for (std::vector<double>& each : seconds) medians.push_back(median_of(std::move(each)));
  return medians;
}

}  // namespace lockstep::app
