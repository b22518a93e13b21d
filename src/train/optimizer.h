#pragma once

// AdamW on the shards this rank owns: moments in fp32, decayed range and the rest apart.

#include <vector>

#include "ops/ops.h"
#include "parallel/gradient_store.h"
#include "parallel/parameter_store.h"
#include "tensor/arena.h"

namespace lockstep::train {

class Optimizer {
 public:
  Optimizer(const ops::AdamW& rule, parallel::ParameterStore& parameters) : rule_(rule), parameters_(parameters) {}
  /// Two moments a unit, zero at the start.
  void declare(Arena& arena);
  /// One update of every unit; reads `scalars`.
  void update(ops::Update& update, parallel::GradientStore& gradients, const ops::StepScalars& scalars);

  struct Moments {
    Tensor exp_avg, exp_avg_sq;  ///< f32, like the unit's shard
  };
  const Moments& moments(UnitIndex unit) const { return moments_[static_cast<std::size_t>(unit.value)]; }

 private:
  ops::AdamW rule_;
  parallel::ParameterStore& parameters_;
  std::vector<Moments> moments_;
};

}  // namespace lockstep::train
