#pragma once

// Where a unit's gradient accumulates, in fp32, in micro-batch order; on the last micro-batch it is reduced over ranks (and
// cut) while the next unit still computes.

#include <vector>

#include "base/strong.h"
#include "layout/unit.h"
#include "tensor/tensor.h"

namespace lockstep::parallel {

/// The buffer of one unit for one micro-batch's backward pass.
struct OpenGradient {
  Tensor flat;              ///< f32, [unit's elements]
  bool accumulate = false;  ///< false: this step's first micro-batch; what lies there is old and is overwritten
};

class GradientStore {
 public:
  virtual ~GradientStore() = default;
  /// A new step of `microbatches` begins.
  virtual void begin(int microbatches) = 0;
  virtual OpenGradient open(UnitIndex unit, Microbatch microbatch) = 0;
  /// This micro-batch has nothing more to add to the unit. After the last micro-batch the unit is reduced.
  virtual void close(UnitIndex unit, Microbatch microbatch) = 0;
  /// Waits until every unit is reduced.
  virtual void finish() = 0;
  /// This rank's range of the unit's reduced gradient, valid after finish().
  struct Shard {
    Tensor gradient;  ///< f32
    std::int64_t first = 0;
  };
  virtual Shard shard(UnitIndex unit) = 0;
};

}  // namespace lockstep::parallel
