#pragma once

// Memory of an NVIDIA GPU, and memory of the host that its copies reach. Each piece is an allocation of CUDA's. An arena makes
// many tensors of one.

#include "device/memory.h"

namespace lockstep::cuda {

class DeviceMemory final : public MemorySource {
 public:
  /// `gpu`: CUDA's number of the GPU. Memory that is handed out says that it is on `device`.
  DeviceMemory(int gpu, Device device) : gpu_(gpu), device_(device) {}
  Memory allocate(std::size_t size) override;
  Device device() const override { return device_; }

 private:
  void release(std::byte* data, std::size_t size) noexcept override;

  int gpu_;
  Device device_;
};

/// Pages that the kernel does not move, for the copies of every GPU.
class PinnedMemory final : public MemorySource {
 public:
  explicit PinnedMemory(int gpu) : gpu_(gpu) {}
  Memory allocate(std::size_t size) override;

 private:
  void release(std::byte* data, std::size_t size) noexcept override;

  int gpu_;
};

}  // namespace lockstep::cuda
