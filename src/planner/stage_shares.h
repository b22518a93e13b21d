#pragma once

// How many of the model's blocks ranks of a pipeline have.

#include "layout/parallel_plan.h"

namespace lockstep::planner {

struct StageShares {
  double last = 0;  ///< of the rank with the head
  double most = 0;  ///< of the one that has most
};
/// As plan.split cuts `layers` blocks, else evenly; of a named schedule.
StageShares stage_shares(const layout::ParallelPlan& plan, std::int64_t layers);
/// The same of the rank with the embedding alone, which is told sooner.
double first_rank_blocks(const layout::ParallelPlan& plan, std::int64_t layers);

}  // namespace lockstep::planner
