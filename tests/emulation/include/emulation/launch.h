#pragma once

// How kernels get onto a stream.

#include <functional>
#include <span>
#include <type_traits>

#include "driver_types.h"

namespace lockstep::emulation {

/// Issues `thread`, which each thread of the grid runs, as `kernel` on the configuration's stream. `pointers` are those among the
/// arguments; one that is neither null nor of memory that the device reaches is refused with cudaErrorInvalidValue.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::span<const void* const> pointers,
                   std::function<void()> thread);
cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

template <class T>
const void* pointer_in(const T& argument) {
  const void* pointer = nullptr;
  if constexpr (std::is_pointer_v<T>) pointer = argument;
  return pointer;
}

}  // namespace lockstep::emulation
