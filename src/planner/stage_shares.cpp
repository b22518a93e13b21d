#include "planner/stage_shares.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"

namespace lockstep::planner {

// The search asks this of every candidate: without a StageMap, which takes memory.
StageShares stage_shares(const layout::ParallelPlan& plan, std::int64_t layers) {
  if (plan.pp == 1) {
    const auto all = static_cast<double>(layers);
    return {all, all, all};
  }
  const layout::NamedSchedule* schedule = layout::find_schedule(plan.schedule);
  ensure(schedule != nullptr && !plan.table, "the planner knows named schedules");
  const bool vee = schedule->chunks == layout::NamedSchedule::Chunks::vee;
  const std::vector<std::int64_t> even =
      plan.split.empty() ? layout::even_split(plan.stages(), layers) : std::vector<std::int64_t>{};
  const std::span<const std::int64_t> split = plan.split.empty() ? even : plan.split;
  const auto of_rank = [&](int rank) {
    std::int64_t blocks = 0;
    for (int chunk = 0; chunk < plan.chunks; ++chunk) {
      const int stage = vee && chunk == 1 ? 2 * plan.pp - 1 - rank : chunk * plan.pp + rank;
      blocks += split[static_cast<std::size_t>(stage)];
    }
    return static_cast<double>(blocks);
  };
  StageShares shares{.first = of_rank(0), .last = of_rank(vee ? 0 : plan.pp - 1)};
  for (int rank = 0; rank < plan.pp; ++rank) shares.most = std::max(shares.most, of_rank(rank));
  return shares;
}

}  // namespace lockstep::planner
