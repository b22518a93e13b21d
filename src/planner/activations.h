#pragma once

// What blocks keep of a micro-batch for its backward pass, by formula; model/saved declares it.

#include "planner/block_work.h"

namespace lockstep::planner {

/// Bytes of one block of a rank, where blocks keep what `kind` says; every block's input with Kind::full. Statistics are left
/// out.
double kept_bytes(const arch::ModelConfig& model, const MicrobatchSize& microbatch, const layout::ParallelPlan& plan,
                  layout::Recompute::Kind kind, double element_bytes);

/// Blocks of `blocks` that are run again together last, and that their forward pass has just left where it stands directly
/// before the backward pass.
std::int64_t last_together(std::int64_t blocks, const layout::Recompute& recompute);

}  // namespace lockstep::planner
