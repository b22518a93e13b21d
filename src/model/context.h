#pragma once

// What every part of a model is given: kernels, stores, boundaries, and which tokens it works on.

#include <span>
#include <vector>

#include "arch/adapter.h"
#include "arch/config.h"
#include "arch/parts.h"
#include "layout/parallel_plan.h"
#include "model/sums.h"
#include "ops/ops.h"
#include "ops/weight_work.h"
#include "parallel/boundary.h"
#include "parallel/context_attention.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"
#include "tensor/mirror.h"

namespace lockstep::model {

/// What all parts of a model share. The code that makes the model owns the context, which outlives the model.
struct Context {
  arch::ModelConfig config;
  layout::ShardedDims dims;
  ops::Ops& ops;
  parallel::ParameterStore& parameters;
  parallel::Boundaries boundaries;
  parallel::ContextAttention& attention;
  Sums& sums;
  const Mirror& angles;    ///< of rotary positions (model/attention/rotation), empty for learned ones
  std::uint64_t seed = 0;  ///< of dropout
  arch::LeaseRule leases = {};
  std::vector<arch::AdapterSite> adapters = {};  ///< of each block
  /// The ranges that the sums `of` are made by; null: each sum is made at once.
  const ops::SumGrid* grid(ops::SumGrid Sums::* of) const { return (sums.*of).ranges.empty() ? nullptr : &(sums.*of); }
};

/// The norm that the configuration asks for, and the norm of heads.
ops::Norm& norm_of(const Context& context);
ops::Norm& head_norm_of(const Context& context);
/// The activation that the configuration asks for, as ops name it.
ops::Activation activation_of(const Context& context);

/// The tokens of one pass.
struct Pass {
  std::int64_t samples = 0;
  ops::Positions positions = {};  ///< of the rows of every sample
  std::int64_t first_sample = 0;  ///< global number of sample 0 (dropout)
  std::int64_t step = 0;
  bool training = false;
  Tensor starts = {};         ///< [samples, positions of a sample] i32, where samples are several documents (ops/positions.h)
  Tensor window_starts = {};  ///< as `starts`, for layers that see a window; empty: all layers see as much
  /// The positions of every sample that each rank of context parallelism has, by rank; empty: as parallel::split_positions says.
  std::span<const ops::Positions> parts = {};
  std::int64_t rows() const { return samples * positions.count(); }
  parallel::TokenGrid grid() const { return {samples, positions.count()}; }
};

/// The tokens that a rank has outside of a boundary, as a pass of their own.
Pass outside_pass(const Pass& pass, const parallel::Boundary& boundary);

/// `sums` [R, C] f32 in the type of activations: `sums` itself, or rounded into the first rows of `to`.
Tensor rounded(const Context& context, const Tensor& sums, const Tensor& to);

/// The dropout of one place in layer `layer`; p = 0 unless training.
ops::DropoutSite dropout_site(const Context& context, const Pass& pass, int layer, ops::Site site);

}  // namespace lockstep::model
