#pragma once

// How many of the model's blocks the ranks of a pipeline have.

#include "layout/parallel_plan.h"

namespace lockstep::planner {

struct StageShares {
  double last = 0;  ///< blocks of the rank with the head
  double most = 0;  ///< blocks of the rank with the most
};
/// The shares of `layers` blocks by plan.split, or evenly where it is empty. The schedule is a named one.
StageShares stage_shares(const layout::ParallelPlan& plan, std::int64_t layers);
/// The blocks of the rank with the embedding. It is computed faster than stage_shares().
double first_rank_blocks(const layout::ParallelPlan& plan, std::int64_t layers);

}  // namespace lockstep::planner
