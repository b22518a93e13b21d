#pragma once

// How ranks of tensor parallelism cut each parameter of a model, and the sizes of a rank's share that follow from it. Products
// whose outputs are heads, features or rows of the vocabulary are cut along their outputs. The products that take these back in
// are cut along their inputs. Everything else is whole on every rank. Nothing needs to divide: shards may be uneven.

#include "arch/parameters.h"
#include "layout/parallel_plan.h"
#include "layout/shard.h"
#include "layout/sharded_dims.h"

namespace lockstep::arch {

/// Whether it is a matrix between the layers of a block, neither the embedding's nor the head's, nor an adapter's.
bool is_hidden_matrix(const layout::ParameterInfo& info);

layout::ShardRule shard_rule(const ModelConfig& config, Role role);

/// The sizes of a rank's share.
layout::ShardedDims sharded_dims(const ModelConfig& config, layout::TensorRank tensor);

/// What there is to share of the model, in sequences of `positions`.
layout::PlanLimits plan_limits(const ModelConfig& config, std::int64_t positions);

}  // namespace lockstep::arch
