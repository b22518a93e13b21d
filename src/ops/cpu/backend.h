#pragma once

// All kernel families of the CPU.

#include <memory>

#include "ops/ops.h"

namespace lockstep::ops::cpu {

/// `runtime` is a CPU's; it and `stream` must outlive the result. Throws UserError when the machine lacks `isa`.
std::unique_ptr<Ops> make_cpu_ops(Runtime& runtime, Stream& stream, Isa isa);

}  // namespace lockstep::ops::cpu
