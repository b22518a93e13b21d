#pragma once

// NVIDIA GPUs as devices. A build without CUDA compiles absent/cuda_runtime.cpp in place of this folder.

#include <memory>
#include <string>

#include "device/runtime.h"

namespace lockstep::cuda {

/// Whether this build has CUDA.
bool is_built();
/// A GPU, and the newest CUDA that its driver knows: "NVIDIA H100 80GB HBM3", "13.0".
struct GpuFacts {
  std::string gpu, driver;
  int capability = 0;  ///< ten times the compute capability
};
/// `index` as open_cuda_runtime() counts, below device_count().
GpuFacts facts_of_gpu(int index);
/// The number of GPUs that this process may use and whose compute capability is 8.0 or more. 0 where there is no driver.
int device_count();
/// `index` counts the GPUs of device_count(); `host` says which threads the rank has on the host. Throws UserError when this
/// build has no CUDA, the machine no such GPU, or its driver is too old.
std::unique_ptr<Runtime> open_cuda_runtime(int index, const CpuOptions& host);

}  // namespace lockstep::cuda
