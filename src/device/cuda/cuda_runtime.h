#pragma once

// NVIDIA GPUs as devices. A build without CUDA has absent/cuda_runtime.cpp in the place of what is in this folder.

#include <memory>

#include "device/runtime.h"

namespace lockstep::cuda {

/// GPUs that this process may use; 0 where there is none, or no driver.
int device_count();
/// Throws UserError when this build has no CUDA, or the machine no such GPU.
std::unique_ptr<Runtime> open_cuda_runtime(int index);

}  // namespace lockstep::cuda
