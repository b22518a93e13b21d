#include "device/cuda/cuda_runtime.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "device/cpu/cpu_runtime.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"

namespace lockstep::cuda {
namespace {

constexpr int oldest_capability = 80;  // copies of blocks that do not wait, and products of bf16

cudaDeviceProp properties_of(int gpu) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  return properties;
}

int capability_of(const cudaDeviceProp& gpu) { return gpu.major * 10 + gpu.minor; }
bool is_supported(const cudaDeviceProp& gpu) { return capability_of(gpu) >= oldest_capability; }

struct Gpus {
  std::vector<int> usable;           ///< by CUDA's numbers
  std::vector<std::string> too_old;  ///< by their names
  Problem problem;                   ///< where none is usable
};

Gpus find_gpus() {
  Gpus gpus;
  int count = 0, driver = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  for (int gpu = 0; error == cudaSuccess && gpu < count; ++gpu) {
    const cudaDeviceProp properties = properties_of(gpu);
    if (is_supported(properties)) {
      gpus.usable.push_back(gpu);
    } else {
      gpus.too_old.push_back(fmt::format("{} has {}.{}", properties.name, properties.major, properties.minor));
    }
  }
  if (!gpus.too_old.empty()) {
    gpus.problem = {fmt::format("train.device=cuda: the kernels need compute capability {}.{}, and {}", oldest_capability / 10,
                                oldest_capability % 10, fmt::join(gpus.too_old, ", ")),
                    "GPUs since A100 and RTX 30 have it; train.device=cpu computes on the processor"};
  } else if (gpus.usable.empty()) {
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    gpus.problem = machine_problem(error, driver);
  }
  return gpus;
}

class CudaRuntime final : public Runtime {
 public:
  CudaRuntime(int gpu, Device device, const CpuOptions& host)
      : gpu_(gpu), device_(device), host_(cpu::open_cpu_runtime(host)), memory_(gpu, device), pinned_(gpu) {
    check(cudaSetDevice(gpu), "cudaSetDevice");
  }
  Device device() const override { return device_; }
  std::unique_ptr<Stream> make_stream() override { return make_cuda_stream(gpu_); }
  Team& team() override { return host_->team(); }
  std::string description() const override {
    const cudaDeviceProp gpu = properties_of(gpu_);
    return fmt::format("{}, compute capability {}.{}, {}", gpu.name, gpu.major, gpu.minor, format_bytes(gpu.totalGlobalMem));
  }

 private:
  MemorySource& source(Space space) override {
    switch (space) {
      case Space::device:
        return memory_;
      case Space::pinned:
        return pinned_;
      case Space::host:
        break;
    }
    return host_->memory(Space::host);
  }

  int gpu_;
  Device device_;
  std::unique_ptr<Runtime> host_;
  DeviceMemory memory_;
  PinnedMemory pinned_;
};

}  // namespace

bool is_built() { return true; }

GpuFacts facts_of_gpu(int index) {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  const cudaDeviceProp gpu = properties_of(find_gpus().usable.at(static_cast<std::size_t>(index)));
  return {gpu.name, version_text(driver), capability_of(gpu)};
}

int device_count() { return static_cast<int>(find_gpus().usable.size()); }

std::unique_ptr<Runtime> open_cuda_runtime(int index, const CpuOptions& host) {
  const Gpus gpus = find_gpus();
  if (gpus.usable.empty()) throw UserError(gpus.problem.message, gpus.problem.remedy);
  const auto count = static_cast<int>(gpus.usable.size());
  if (index < 0 || index >= count) {
    throw UserError(fmt::format("train.device=cuda: GPU {} is asked for, and this process may use {}", index, count),
                    "nvidia-smi lists the GPUs of this machine; train.device=cpu computes on the processor");
  }
  return std::make_unique<CudaRuntime>(gpus.usable[static_cast<std::size_t>(index)], Device{DeviceKind::cuda, index}, host);
}

}  // namespace lockstep::cuda
