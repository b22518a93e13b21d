#pragma once

// Weight gradients, made as they come.

#include "model/canonical.h"
#include "ops/ops.h"
#include "ops/weight_work.h"

namespace lockstep::train {

class ImmediateWeights final : public ops::WeightSink {
 public:
  /// `canonical` makes what is summed by ranges; null where nothing is.
  explicit ImmediateWeights(ops::Ops& ops, model::Canonical* canonical = nullptr) : ops_(ops), canonical_(canonical) {}
  void push(const ops::WeightWork& work) override {
    if (work.grid != nullptr && canonical_ != nullptr) return canonical_->backward_weight(ops_, work);
    ops_.linear().backward_weight(work.gradient, work.bias_gradient, work.dy, work.x, work.accumulate, work.grid);
  }

 private:
  ops::Ops& ops_;
  model::Canonical* canonical_;
};

}  // namespace lockstep::train
