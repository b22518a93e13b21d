#include "device/cuda/cuda_runtime.h"

#include "base/error.h"

namespace lockstep::cuda {

bool is_built() { return false; }
GpuFacts facts_of_gpu(int /*index*/) { return {}; }
int device_count() { return 0; }

std::unique_ptr<Runtime> open_cuda_runtime(int /*index*/, const CpuOptions& /*host*/) {
  throw UserError("train.device=cuda: this program was built without CUDA",
                  "make cuda builds one that has it; train.device=cpu computes on the processor");
}

}  // namespace lockstep::cuda
