#pragma once

// Makes the kernels of a device. The one header that knows every backend.

#include <memory>

#include "ops/cpu/options.h"
#include "ops/ops.h"

namespace lockstep::ops {

struct OpsOptions {
  CpuOptions cpu = {};
  OpObserver* observer = nullptr;  ///< is told of every op; outlives the Ops
};

/// The fast backend of the runtime's device; `runtime` and `stream` must outlive it.
std::unique_ptr<Ops> make_ops(Runtime& runtime, Stream& stream, const OpsOptions& options = {});

}  // namespace lockstep::ops
