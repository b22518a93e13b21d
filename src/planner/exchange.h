#pragma once

// Seconds of what ranks exchange. A group's collective goes as fast as its slowest link: inside a node, or a rank's share of the
// network once any two neighbours of the ring lie on different nodes.

#include "layout/parallel_plan.h"
#include "planner/machine.h"

namespace lockstep::planner {

/// Ranks that do something together.
struct Group {
  int ranks = 1;
  bool inside = true;  ///< all on one node
  double near = 1;     ///< otherwise, of them on each node
};
/// Of a plan whose ranks lie on nodes as layout/mesh numbers them.
Group tensor_group(const layout::ParallelPlan& plan, const Machine& machine);
Group context_group(const layout::ParallelPlan& plan, const Machine& machine);
/// data x context: that hold the same parameters.
Group replica_group(const layout::ParallelPlan& plan, const Machine& machine);
/// Of these, those over which state is cut that the plan cuts over `over`.
Group state_group(const layout::ParallelPlan& plan, layout::CutOver over, const Machine& machine);
/// Neighbours in a pipeline.
Group pipeline_group(const layout::ParallelPlan& plan, const Machine& machine);

/// Of a ring (Patarasuk and Yuan 2009): (n - 1) / n of the bytes for a gather or a scattered sum, twice for a sum for all.
double gather_seconds(double bytes, const Group& group, const Machine& machine);
double sum_seconds(double bytes, const Group& group, const Machine& machine);
/// From one rank to another.
double send_seconds(double bytes, bool inside, const Machine& machine);

}  // namespace lockstep::planner
