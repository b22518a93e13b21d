#pragma once

// Arithmetic of a model.

#include <cstdint>

#include "arch/config.h"
#include "layout/parallel_plan.h"
#include "layout/pipeline/split.h"

namespace lockstep::arch {

/// FLOPs a token of training, forward and backward: 6 N + 12 L H Q T. The formula is nanoGPT's and PaLM's (Chowdhery et al. 2022,
/// appendix B). N counts the parameters that a token is multiplied with: all but tables that are only looked up. Attention is
/// counted whole, not its causal half. Weights that adapters leave as they are have no gradient and count 4 N.
double training_flops_per_token(const ModelConfig& config, std::int64_t positions);

/// FLOPs a token that are computed again in the backward pass. Full recomputation repeats a block's forward pass, a third of its
/// training's FLOPs. Selective recomputation repeats the product that widens it. HFU counts them (Korthikanti et al. 2022,
/// appendix A).
double repeated_flops_per_token(const ModelConfig& config, std::int64_t positions, const layout::Recompute& recompute);

/// FLOPs a token that the head computes again where samples are judged whole: its forward pass.
double head_again_flops_per_token(const ModelConfig& config, std::int64_t positions);

/// The parts of training_flops_per_token() that a block and the head take.
layout::PartCosts part_flops_per_token(const ModelConfig& config, std::int64_t positions);

/// The plan with as much work for every stage of a pipeline, where it leaves the split open.
layout::ParallelPlan balanced(layout::ParallelPlan plan, const ModelConfig& config, std::int64_t positions);

}  // namespace lockstep::arch
