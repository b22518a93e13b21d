#include "app/plan/recipe_layout.h"

#include <fmt/format.h>

#include "app/settings/pipeline_settings.h"
#include "app/start/plan.h"
#include "base/error.h"

namespace lockstep::app {
planner::Candidate candidate_of(const RunConfig& config, const planner::Work& work, bool on_host) {
  if (const std::string& schedule = config.parallel.schedule; schedule_file(schedule)) {
    throw UserError(fmt::format("parallel.schedule = {}: a table has no time model", schedule),
                    "lockstep plan draw draws it; or one of the named schedules");
  }
  const planner::Machine& machine = work.machine;
  planner::Candidate candidate{.plan = plan_of(config, work.model, machine.ranks(), static_cast<int>(machine.devices), on_host),
                               .samples = config.model.batch_size};
  const bool cut = layout::zero_level(candidate.plan) >= 2;
  if (work.system.reduces_microbatches && cut) candidate.plan.reduce = layout::ReduceEvery::microbatch;
  return candidate;
}

std::vector<std::string> system_names() {
  std::vector<std::string> names;
  for (const planner::System& system : planner::systems()) names.emplace_back(system.name);
  return names;
}

std::string caveat(const planner::Work& work) {
  const bool gpu = work.machine.units > 0;
  if (!is_own(work.system) || !gpu) return {};
  return "lockstep has not run on GPUs: these are its layouts at the rates of Megatron's products; "
         "--system fsdp and others are held against runs\n";
}

}  // namespace lockstep::app
