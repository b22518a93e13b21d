#pragma once

// What numerics.canonical asks of a plan (canonical_grid.h).

#include <vector>

#include "layout/parallel_plan.h"

namespace lockstep::layout {

/// Adds to `problems` what is wrong with a canonical plan for the sizes in `limits`.
void check_canonical(const ParallelPlan& plan, const PlanLimits& limits, const PlanGrammar& say, std::vector<Problem>& problems);

}  // namespace lockstep::layout
