#include "base/error.h"
#include "ops/cuda/backend.h"

namespace lockstep::ops::cuda {

std::string_view kernels_hash() { return {}; }

std::unique_ptr<Ops> make_cuda_ops(Runtime& /*runtime*/, Stream& /*stream*/, Bf16Products /*bf16*/, OpObserver* /*observer*/) {
  throw UserError("train.device=cuda: this program was built without CUDA",
                  "make cuda builds one that has it; train.device=cpu computes on the processor");
}

}  // namespace lockstep::ops::cuda
