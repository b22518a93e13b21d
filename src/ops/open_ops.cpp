#include "base/error.h"
#include "ops/cpu/backend.h"
#include "ops/ops.h"

namespace lockstep::ops {

std::unique_ptr<Ops> make_ops(Runtime& runtime, Stream& stream, const OpsOptions& options) {
  ensure(runtime.device().kind == DeviceKind::cpu, "there are kernels for the runtime's device");
  return cpu::make_cpu_ops(runtime, stream, options.isa);
}

}  // namespace lockstep::ops
