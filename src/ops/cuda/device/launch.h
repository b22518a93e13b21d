#pragma once

// How kernels are started: always here. Blocks and threads are counted, and an error of the launch becomes an exception.

#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "device/cuda/check.h"
#include "ops/cuda/context.h"

namespace lockstep::ops::cuda {

struct LaunchShape {
  dim3 blocks;
  unsigned threads;        ///< of a block
  std::size_t shared = 0;  ///< bytes of a block's shared memory
};

/// Bytes of shared memory that a block has without being asked for; more must be.
inline constexpr std::size_t shared_unasked = std::size_t{48} << 10;

/// As many blocks of `size` as `count` elements need.
inline unsigned blocks_of(std::int64_t count, std::int64_t size) { return narrow<unsigned>(div_up(count, size)); }

/// Starts kernel(arguments) on the context's stream; nothing where there are no blocks. Throws SystemError when the GPU refuses.
template <class... Parameters, class... Arguments>
void launch(const Context& context, const LaunchShape& shape, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (shape.blocks.x == 0 || shape.blocks.y == 0 || shape.blocks.z == 0) return;
  if (!context.gate.lets(reinterpret_cast<const void*>(kernel), shape.blocks.x)) return;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared;
  config.stream = context.native;
  if (shape.shared > shared_unasked) {
    lockstep::cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, narrow<int>(shape.shared)),
                          "cudaFuncSetAttribute");
  }
  lockstep::cuda::check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...),
                        "cudaLaunchKernelEx");
}

}  // namespace lockstep::ops::cuda
