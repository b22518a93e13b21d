#include "planner/stage_shares.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "layout/pipeline/schedules.h"
#include "layout/pipeline/split.h"

namespace lockstep::planner {

namespace {

/// Blocks of the stages of a rank. The search asks this of every candidate: without a StageMap, which takes memory.
class BlocksOfRanks {
 public:
  BlocksOfRanks(const layout::ParallelPlan& plan, std::int64_t layers) : plan_(plan) {
    const layout::NamedSchedule* schedule = layout::find_schedule(plan.schedule);
    ensure(schedule != nullptr && !plan.table, "the planner knows named schedules");
    vee_ = schedule->chunks == layout::NamedSchedule::Chunks::vee;
    if (plan.split.empty()) even_ = layout::even_split(plan.stages(), layers);
  }
  double of(int rank) const {
    const std::vector<std::int64_t>& split = plan_.split.empty() ? even_ : plan_.split;
    std::int64_t blocks = 0;
    for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
      const int stage = vee_ && chunk == 1 ? 2 * plan_.pp - 1 - rank : chunk * plan_.pp + rank;
      blocks += split[static_cast<std::size_t>(stage)];
    }
    return static_cast<double>(blocks);
  }
  double last() const { return of(vee_ ? 0 : plan_.pp - 1); }

 private:
  const layout::ParallelPlan& plan_;
  std::vector<std::int64_t> even_;
  bool vee_ = false;
};

}  // namespace

double first_rank_blocks(const layout::ParallelPlan& plan, std::int64_t layers) {
  return plan.pp == 1 ? static_cast<double>(layers) : BlocksOfRanks(plan, layers).of(0);
}

StageShares stage_shares(const layout::ParallelPlan& plan, std::int64_t layers) {
  if (plan.pp == 1) return {.last = static_cast<double>(layers), .most = static_cast<double>(layers)};
  const BlocksOfRanks blocks(plan, layers);
  StageShares shares{.last = blocks.last()};
  for (int rank = 0; rank < plan.pp; ++rank) shares.most = std::max(shares.most, blocks.of(rank));
  return shares;
}

}  // namespace lockstep::planner
