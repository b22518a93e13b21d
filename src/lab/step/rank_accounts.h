#pragma once

// Where each rank's part of a step's time goes. It also says how long the ranks of a pipeline wait for each other, as measured
// and as the simulator predicts.

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

/// All ranks' accounts on rank 0, by rank; empty on the others. All ranks have equally many chunks. Collective.
std::vector<RankAccount> gather_accounts(const RankAccount& own, comm::Communicator& world);

/// The account of one rank of the pipeline. Where several ranks have the same stages, it is their mean.
struct StageAccount {
  std::vector<int> stages = {};
  double passes = 0;   ///< seconds of a step in its passes
  double list = 0;     ///< seconds from the first action to the end of the slowest rank's last
  double waiting = 0;  ///< the share of `list` that is in no pass
  // `waiting` by layout/pipeline/simulation:
  double simulated = 0;  ///< with the measured seconds of each stage's passes, and messages that take no time
  double equal = 0;      ///< with passes of equal length in all stages
};
/// Accounts by rank of the pipeline; empty without a pipeline. `accounts`: of all ranks of the plan.
std::vector<StageAccount> stage_accounts(const std::vector<RankAccount>& accounts, const layout::ParallelPlan& plan);

}  // namespace lockstep::lab
