#include "app/plan/recipe_layout.h"

#include <fmt/format.h>

#include <utility>

#include "app/settings/pipeline_settings.h"
#include "app/settings/run_layout.h"
#include "arch/flops.h"
#include "arch/shard_rules.h"
#include "base/error.h"

namespace lockstep::app {
planner::Candidate candidate_of(const RunConfig& config, const planner::Work& work, bool on_host) {
  const std::int64_t ranks = work.machine.ranks();
  planner::Candidate candidate{.plan = layout_of(config, ranks), .samples = config.model.batch_size};
  layout::ParallelPlan& plan = candidate.plan;
  if (schedule_file(plan.schedule)) {
    throw UserError(fmt::format("parallel.schedule = {}: a table has no time model", plan.schedule),
                    "lockstep plan draw draws it; or one of the named schedules");
  }
  place_offloaded(plan, config.memory, on_host);
  plan.ranks_per_host = static_cast<int>(work.machine.devices);
  if (std::vector<Problem> problems = layout::check(plan, arch::plan_limits(work.model, work.positions), ranks);
      !problems.empty())
    throw UserError(std::move(problems));
  plan = arch::balanced(std::move(plan), work.model, work.positions);
  return candidate;
}

}  // namespace lockstep::app
