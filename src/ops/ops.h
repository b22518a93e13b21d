#pragma once

// All kernel families of one device, bound to one stream. The public functions of a family check shapes and types
// (BrokenRule), then call the private virtual ones.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/kept_work.h"
#include "device/runtime.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/rotary.h"
#include "ops/split_norm.h"
#include "ops/update.h"

namespace lockstep::ops {

class Ops {
 public:
  virtual ~Ops() = default;
  virtual Linear& linear() = 0;
  virtual Norm& norm(NormForm form) = 0;
  virtual SplitNorm& split_norm() = 0;
  virtual Attention& attention() = 0;
  virtual Rotary& rotary() = 0;
  virtual Activations& activation() = 0;
  virtual Embedding& embedding() = 0;
  virtual Dropout& dropout() = 0;
  virtual Loss& loss() = 0;
  virtual Elementwise& elementwise() = 0;
  virtual Reduce& reduce() = 0;
  virtual Update& update() = 0;
  /// The stream that the kernels are issued on. Copies of what they read and write belong there, too.
  virtual Stream& stream() = 0;
  /// Bytes this backend holds for packing and partial sums, on top of every arena: fixed at construction and by take_sum_grids().
  virtual std::int64_t workspace_bytes() const = 0;
  /// Lets products and bias gradients be summed by ranges (ops/sum_grid.h) from now on. That takes more workspace. Once is
  /// enough.
  virtual void take_sum_grids() = 0;
  /// Calls `issue`, which gives the stream the same work at every call with `kept`: kernels, sizes and addresses are the same. A
  /// device may keep that work, and then do what it kept in place of what is issued. `issue` waits for nothing on the stream.
  /// `kept` begins empty. Its owner ends it before these ops.
  virtual void repeat(std::unique_ptr<KeptWork>& /*kept*/, const std::function<void()>& issue) { issue(); }
};

}  // namespace lockstep::ops
