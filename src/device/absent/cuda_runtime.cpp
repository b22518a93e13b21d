#include "device/cuda/cuda_runtime.h"

#include "base/error.h"

namespace lockstep::cuda {

int device_count() { return 0; }

std::unique_ptr<Runtime> open_cuda_runtime(int /*index*/, const CpuOptions& /*host*/) {
  throw UserError("train.device=cuda: this program was built without CUDA", "train.device=cpu computes on the processor");
}

}  // namespace lockstep::cuda
