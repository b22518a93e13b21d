#include "base/error.h"
#include "device/cpu/cpu_runtime.h"
#include "device/runtime.h"

namespace lockstep {

std::unique_ptr<Runtime> open_runtime(Device device, CpuOptions options) {
  if (device.kind == DeviceKind::cpu) return cpu::open_cpu_runtime(options);
  throw UserError("this build has no CUDA", "use the CPU: device=cpu");
}

}  // namespace lockstep
