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
  return {.plan = plan_of(config, work.model, machine.ranks(), static_cast<int>(machine.devices), on_host),
          .samples = config.model.batch_size};
}

}  // namespace lockstep::app
