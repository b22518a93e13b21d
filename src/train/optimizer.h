#pragma once

// AdamW on the shards this rank owns: moments in the type of what it updates, decayed range and the rest apart.

#include <cstdint>
#include <vector>

#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::train {

/// What an update multiplies a gradient of this norm by; `limit` 0: no clipping.
double clip_factor(double norm, float limit);

/// One update of the weights.
struct UpdateNumbers {
  double learning_rate = 0;
  std::int64_t updates = 1;  ///< this one included
  double clip_factor = 1;
  bool finite = true;  ///< false: everything stays as it is
};
/// Writes them where the update reads them.
void set_update(const ops::StepScalars& scalars, const ops::AdamW& rule, const UpdateNumbers& numbers);

/// A flat range of a unit; all of one size.
struct UpdateRange {
  Tensor weights, published, gradient, exp_avg, exp_avg_sq;
  std::int64_t decayed = 0;  ///< elements [0, decayed) decay, clamped to the range
};
void update_range(ops::Update& update, ops::AdamW rule, const UpdateRange& range, const ops::StepScalars& scalars);

class Optimizer {
 public:
  Optimizer(const ops::AdamW& rule, parallel::ParameterStore& parameters) : rule_(rule), parameters_(parameters) {}
  /// Two moments a unit, zero at the start.
  void declare(Arena& arena);
  /// One update of every unit; reads `scalars`.
  void update(ops::Update& update, parallel::GradientStore& gradients, const ops::StepScalars& scalars);

  struct Moments {
    Tensor exp_avg, exp_avg_sq;  ///< of the size and type of the unit's master
  };
  const Moments& moments(UnitIndex unit) const { return moments_[static_cast<std::size_t>(unit.value)]; }

 private:
  ops::AdamW rule_;
  parallel::ParameterStore& parameters_;
  std::vector<Moments> moments_;
};

}  // namespace lockstep::train
