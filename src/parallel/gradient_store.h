#pragma once

// Where a unit's gradient accumulates, in fp32, in micro-batch order. On the last micro-batch it is reduced over ranks (and cut).
// The next unit still computes meanwhile.

#include <vector>

#include "base/strong.h"
#include "layout/unit.h"
#include "tensor/tensor.h"

namespace lockstep::parallel {

/// The buffer of one unit for one micro-batch's backward pass, to be added to until the unit is closed for it.
struct OpenGradient {
  Tensor flat;              ///< f32, [unit's elements]
  bool accumulate = false;  ///< false: this step's first micro-batch; what lies there is old and is overwritten
};

class GradientStore {
 public:
  virtual ~GradientStore() = default;
  /// A new step of `microbatches` begins.
  virtual void begin(int microbatches) = 0;
  /// The step will read these tokens [n] i32, which lie in host memory: they say which rows of open_rows() may be added to.
  virtual void expect(const Tensor& tokens) = 0;
  /// Micro-batches of a unit are opened in order and closed in order. One may be opened before the last is closed, where a part
  /// of the last one's gradient comes later. Each element is added to in the order of micro-batches.
  virtual OpenGradient open(UnitIndex unit, Microbatch microbatch) = 0;
  /// The token table's gradient [V, C] f32, to which the embedding's rows of this micro-batch are added. Only rows of the step's
  /// tokens may be touched. They hold the sum of earlier micro-batches, or zero. Called while the embedding's unit is open.
  virtual Tensor open_rows(Microbatch microbatch) = 0;
  /// This micro-batch has nothing more to add to the unit. After the last micro-batch the unit is reduced.
  virtual void close(UnitIndex unit, Microbatch microbatch) = 0;
  /// Waits until every unit is reduced, and a tied matrix has both of its parts.
  virtual void finish() = 0;
  /// This rank's range of the unit's reduced gradient, valid after finish().
  struct Shard {
    Tensor gradient;  ///< f32; empty where it lies elsewhere
    std::int64_t first = 0;
  };
  virtual Shard shard(UnitIndex unit) = 0;
  /// Whether each micro-batch's gradient is reduced by itself when it is closed; if not, the step's sum is.
  virtual bool reduces_each_microbatch() const { return false; }
  /// Seconds of the step for which reductions were waited for.
  virtual double exposed_seconds() const { return 0; }
  /// Seconds of the step in which reductions can be hidden: from the first complete gradient of a unit to finish(), without
  /// exposed_seconds().
  virtual double overlappable_seconds() const { return 0; }
};

}  // namespace lockstep::parallel
