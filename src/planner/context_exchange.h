#pragma once

// What ranks that divide a sequence's positions exchange for attention: seconds that they wait for it, and what they keep of it.
// docs/parallelism.md has the volumes.

#include "arch/config.h"
#include "planner/exchange.h"

namespace lockstep::planner {

/// How the plan's context ranks attend: `exchanging` of them exchange positions for heads, in a ring of `passing` such groups.
struct ContextGroups {
  int exchanging = 1, passing = 1;
};
ContextGroups context_groups(const layout::ParallelPlan& plan);

/// A rank's part of a block's attention.
struct AttentionPart {
  double rows = 0;                                      ///< its own positions of all samples of a micro-batch
  std::int64_t heads = 1, kv_heads = 1, head_size = 1;  ///< of its tensor rank
  double element_bytes = 2;
  double forward = 0, backward = 0;  ///< seconds that it computes
};

/// Seconds of a block's passes for which nothing is computed.
struct ContextSeconds {
  double forward = 0, backward = 0;
};
/// Keys that are gathered and positions that are exchanged for heads are waited for, and so are the sums of keys' gradients, in
/// fp32. What goes round a ring does so under the products of each hop; of the backward pass the gradients' last hop is bare.
ContextSeconds context_seconds(const AttentionPart& part, const layout::ParallelPlan& plan, const Machine& machine);

/// Elements that a block keeps of other ranks' positions or heads, for each of the rank's own rows.
double kept_beside(const arch::ModelConfig& model, const layout::ParallelPlan& plan);

}  // namespace lockstep::planner
