#pragma once

// Where each rank's part of a step's time goes, and how long the ranks of a pipeline wait for each other: as measured, and as the
// simulator says.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "layout/parallel_plan.h"
#include "train/pipeline_runner.h"

namespace lockstep::lab {

/// Seconds of a step on one rank.
struct RankAccount {
  double kernels = 0;
  double ranks = 0;  ///< waiting for other ranks
  double rest = 0;
  train::ListSeconds list = {};

  double together() const { return kernels + ranks + rest; }
};

/// All ranks' accounts, in the order of ranks, on rank 0; empty elsewhere. All ranks have as many chunks. Collective.
std::vector<RankAccount> gather_accounts(const RankAccount& own, comm::Communicator& world);

/// One rank of the pipeline; where several have the same stages, their mean.
struct StageAccount {
  std::vector<int> stages = {};
  double passes = 0;   ///< seconds of a step in its passes
  double list = 0;     ///< seconds from the first action to the end of the slowest rank's last
  double waiting = 0;  ///< the part of `list`, from 0 to 1, in which it is in no pass
  // The same by layout/pipeline/simulation:
  double simulated = 0;  ///< with what each stage's passes took, and messages that take no time
  double equal = 0;      ///< were all passes of all stages as long as each other
};
/// By rank of the pipeline; empty without one. `accounts`: of all ranks of the plan.
std::vector<StageAccount> stage_accounts(const std::vector<RankAccount>& accounts, const layout::ParallelPlan& plan);

}  // namespace lockstep::lab
