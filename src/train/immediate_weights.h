#pragma once

// Weight gradients, made as they come.

#include "ops/ops.h"
#include "ops/weight_work.h"

namespace lockstep::train {

class ImmediateWeights final : public ops::WeightSink {
 public:
  explicit ImmediateWeights(ops::Ops& ops) : ops_(ops) {}
  void push(const ops::WeightWork& work) override {
    ops_.linear().backward_weight(work.gradient, work.bias_gradient, work.dy, work.x, work.accumulate, work.grid);
  }

 private:
  ops::Ops& ops_;
};

}  // namespace lockstep::train
