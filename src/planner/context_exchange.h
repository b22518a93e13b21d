#pragma once

// Exchanges of attention between ranks that divide a sequence's positions: seconds that they wait, and what they keep of other
// ranks. docs/parallelism.md has the volumes.

#include "arch/config.h"
#include "planner/exchange.h"

namespace lockstep::planner {

/// How the plan's context ranks attend: groups of `exchanging` ranks exchange positions for heads, and `passing` such groups make
/// a ring.
struct ContextGroups {
  int exchanging = 1, passing = 1;
};
ContextGroups context_groups(const layout::ParallelPlan& plan);

/// A rank's part of a block's attention.
struct AttentionPart {
  double rows = 0;                                      ///< its own positions of all samples of a micro-batch
  std::int64_t heads = 1, kv_heads = 1, head_size = 1;  ///< of its tensor-parallel rank
  double element_bytes = 2;
  double forward = 0, backward = 0;  ///< seconds of computing
};

/// Seconds of a block's passes in which a rank waits for exchanges of attention.
struct ContextSeconds {
  double forward = 0, backward = 0;
};
/// A rank waits while keys are gathered and positions are exchanged for heads, and for sums of keys' gradients in fp32. A ring's
/// messages hide behind the products of each hop. In the backward pass nothing hides the last hop of the gradients.
ContextSeconds context_seconds(const AttentionPart& part, const layout::ParallelPlan& plan, const Machine& machine);

/// Elements of other ranks' positions or heads that a block keeps, for each of the rank's own rows.
double kept_beside(const arch::ModelConfig& model, const layout::ParallelPlan& plan);

}  // namespace lockstep::planner
