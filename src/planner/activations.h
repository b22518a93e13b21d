#pragma once

// What blocks keep of a micro-batch for its backward pass, by formulas; model/saved declares the memory itself.

#include "planner/block_work.h"

namespace lockstep::planner {

/// Bytes that one block of a rank keeps with recomputation of `kind`. With Kind::full it keeps its input. Statistics are left
/// out.
double kept_bytes(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan,
                  layout::Recompute::Kind kind, double element_bytes);

/// The number of blocks, out of `blocks`, in the last group that is recomputed together. The group's forward pass has just ended
/// when the backward pass begins.
std::int64_t last_together(std::int64_t blocks, const layout::Recompute& recompute);

}  // namespace lockstep::planner
