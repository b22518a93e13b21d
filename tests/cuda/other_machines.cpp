// CUDA's kernels, on the emulation or on a GPU, are compared with the processor's by the tests of ops.

#include "support/ops.h"
#include "support/staged_families.h"

namespace lockstep::test {

std::vector<std::unique_ptr<Machine>> other_machines() {
  std::unique_ptr<Runtime> runtime = open_runtime({DeviceKind::cuda, 0});
  std::unique_ptr<Stream> stream = runtime->make_stream();
  auto kernels = std::make_unique<support::StagedOps>(
      *runtime, ops::make_ops(*runtime, *stream, {.cpu = {.bf16 = ops::Bf16Order::widened}}));
  std::vector<std::unique_ptr<Machine>> all;
  all.push_back(std::make_unique<Machine>("cuda", std::move(runtime), std::move(stream), std::move(kernels)));
  return all;
}

}  // namespace lockstep::test
