#pragma once

// Seconds of exchanges between ranks. A group's collective is as fast as its slowest link. That link is inside a node. Where two
// neighbours of the ring lie on different nodes, it is a rank's share of the network.

#include "layout/parallel_plan.h"
#include "planner/machine.h"

namespace lockstep::planner {

/// Ranks of one exchange.
struct Group {
  int ranks = 1;
  bool inside = true;  ///< all on one node
  double near = 1;     ///< otherwise: ranks of the group on each node
};
/// Groups that divide layers, or positions. They lie on nodes as layout/mesh numbers a plan's ranks.
Group tensor_group(const layout::ParallelPlan& plan, const Machine& machine);
Group context_group(const layout::ParallelPlan& plan, const Machine& machine);
/// The data x context ranks that hold the same parameters.
Group replica_group(const layout::ParallelPlan& plan, const Machine& machine);
/// The ranks of a replica group that divide the state that the plan cuts over `over`.
Group state_group(const layout::ParallelPlan& plan, layout::CutOver over, const Machine& machine);
/// Neighbours in a pipeline.
Group pipeline_group(const layout::ParallelPlan& plan, const Machine& machine);

/// Seconds in a ring (Patarasuk and Yuan 2009). An all-gather or a reduce-scatter moves (n - 1) / n of the bytes, an all-reduce
/// twice that.
double gather_seconds(double bytes, const Group& group, const Machine& machine);
double sum_seconds(double bytes, const Group& group, const Machine& machine);
/// Seconds of a message from one rank to another.
double send_seconds(double bytes, bool inside, const Machine& machine);

}  // namespace lockstep::planner
