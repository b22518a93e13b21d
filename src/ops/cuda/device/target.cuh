#pragma once

// nvcc compiles kernels once for each kind of GPU. What must differ between these asks here.

namespace lockstep::ops::cuda {

#ifdef __CUDA_ARCH__
inline constexpr int target = __CUDA_ARCH__;  ///< 100 times the compute capability
#else
inline constexpr int target = 1000;  // the host's part of a compilation, and the emulation
#endif

}  // namespace lockstep::ops::cuda
