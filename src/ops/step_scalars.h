#pragma once

// The few numbers of a step that ops read from device memory, so that a step can be captured once and replayed.

#include "tensor/mirror.h"

namespace lockstep::ops {

/// Index into the [count] f32 tensor of step scalars.
struct StepScalars {
  enum Index : int {
    learning_rate,
    bias_correction1,  ///< 1 - beta1^t
    bias_correction2,  ///< 1 - beta2^t
    clip_factor,       ///< the gradient is multiplied by it in the update
    loss_scale,        ///< one over the step's global number of targets
    finite,            ///< 1 when the gradient is finite, else 0: the update leaves everything as it is
    count
  };
  Tensor values;  ///< [count] f32

  Tensor operator[](Index index) const { return values.flat(index, 1); }
};

/// The step scalars with the copy that the host writes. upload() of all or of one() brings them to where ops read them.
struct WrittenScalars {
  Mirror values;

  StepScalars on_device() const { return {values.device}; }
  Mirror one(StepScalars::Index index) const { return values.flat(index, 1); }
  float& operator[](StepScalars::Index index) const { return elements<float>(values.host)[static_cast<std::size_t>(index)]; }
};

}  // namespace lockstep::ops
