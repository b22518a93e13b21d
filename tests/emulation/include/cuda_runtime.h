#pragma once

// CUDA's language and the functions of its runtime that Lockstep uses, for a plain C++ compiler. The names are NVIDIA's; what
// they do here is what NVIDIA's manuals promise, and no more.

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"
#include "device_functions.h"
#include "emulation/launch.h"
#include "emulation/warp.h"
#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

inline uint3 threadIdx{}, blockIdx{};  // of the thread that runs
inline dim3 blockDim, gridDim;

/// The arguments are converted to the kernel's parameters now; the kernel runs when the stream's work comes to it.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((sizeof(Parameters) + ... + 0) <= 32764);
  std::tuple<std::remove_cv_t<Parameters>...> given(std::forward<Arguments>(arguments)...);
  const auto pointers = std::apply(
      [](const auto&... each) { return std::array<const void*, sizeof...(each)>{lockstep::emulation::pointer_in(each)...}; },
      given);
  return lockstep::emulation::launch(*config, reinterpret_cast<const void*>(kernel), pointers,
                                     [kernel, given] { std::apply(kernel, given); });
}

template <class Result, class... Parameters>
cudaError_t cudaFuncSetAttribute(Result (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return lockstep::emulation::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
