#include "cuda/gpu_kinds.h"

namespace lockstep::test {

void for_gpu_kinds(const std::function<void()>& body) { body(); }

}  // namespace lockstep::test
