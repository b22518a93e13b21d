#include "device/cpu/cpu_runtime.h"
#include "device/cuda/cuda_runtime.h"
#include "device/runtime.h"

namespace lockstep {

std::unique_ptr<Runtime> open_runtime(Device device, CpuOptions options) {
  if (device.kind == DeviceKind::cpu) return cpu::open_cpu_runtime(options);
  return cuda::open_cuda_runtime(device.index, options);
}

}  // namespace lockstep
