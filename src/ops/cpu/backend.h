#pragma once

// All kernel families of the CPU.

#include <memory>

#include "ops/cpu/options.h"
#include "ops/ops.h"

namespace lockstep::ops::cpu {

/// `runtime` is a CPU's; it and `stream` must outlive the result. Throws UserError when the machine or the build lacks what is
/// asked for.
std::unique_ptr<Ops> make_cpu_ops(Runtime& runtime, Stream& stream, const CpuOptions& options, OpObserver* observer);

}  // namespace lockstep::ops::cpu
