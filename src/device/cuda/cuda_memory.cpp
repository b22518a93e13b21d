#include "device/cuda/cuda_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "base/units.h"
#include "device/cuda/check.h"

namespace lockstep::cuda {

Memory DeviceMemory::allocate(std::size_t size) {
  if (size == 0) return {};
  check(cudaSetDevice(gpu_), "cudaSetDevice");
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, size);
  if (error == cudaErrorMemoryAllocation) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw SystemError(fmt::format("no memory: {} are needed in one piece on GPU {}, and {} of its {} are free",
                                  format_bytes(size), device_.index, format_bytes(free), format_bytes(total)));
  }
  check(error, "cudaMalloc");
  Memory memory(this, static_cast<std::byte*>(data), size);
  // The default stream: the others do not wait for it (cuda_stream.cpp), so the caller does.
  check(cudaMemsetAsync(data, 0, size, nullptr), "cudaMemsetAsync");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return memory;
}

// A destructor calls it: an error that came before is told where the stream is waited for.
void DeviceMemory::release(std::byte* data, std::size_t /*size*/) noexcept { cudaFree(data); }

Memory PinnedMemory::allocate(std::size_t size) {
  if (size == 0) return {};
  check(cudaSetDevice(gpu_), "cudaSetDevice");
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, size, cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    throw SystemError(fmt::format("no memory: {} of the host's could not be pinned in one piece", format_bytes(size)));
  }
  check(error, "cudaHostAlloc");
  std::memset(data, 0, size);
  return {this, static_cast<std::byte*>(data), size};
}

void PinnedMemory::release(std::byte* data, std::size_t /*size*/) noexcept { cudaFreeHost(data); }

}  // namespace lockstep::cuda
