#include "ops/open_ops.h"

#include "ops/cpu/backend.h"
#include "ops/cpu/library/library.h"
#include "ops/cuda/backend.h"

namespace lockstep::ops {

std::unique_ptr<Ops> make_ops(Runtime& runtime, Stream& stream, const OpsOptions& options) {
  if (runtime.device().kind == DeviceKind::cuda) {
    const bool widened = options.cpu.bf16 == Bf16Order::widened;
    return cuda::make_cuda_ops(runtime, stream, widened ? cuda::Bf16Products::widened : cuda::Bf16Products::tensor_cores,
                               options.observer);
  }
  return cpu::make_cpu_ops(runtime, stream, options.cpu, options.observer);
}

std::string library_for(DType type) { return cpu::library_has(type) ? cpu::open_library(1)->name() : ""; }

}  // namespace lockstep::ops
