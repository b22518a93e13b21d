#include "device/cuda/check.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace lockstep::cuda {
namespace {

constexpr const char* on_the_processor = "train.device=cpu computes on the processor";

std::string visible_devices() {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  return list == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", list);
}

Problem old_driver(int driver) {
  if (driver == 0) {
    return {"train.device=cuda: this machine has no NVIDIA driver",
            fmt::format("install NVIDIA's driver, until nvidia-smi lists the GPU; {}", on_the_processor)};
  }
  int built_with = 0;
  check(cudaRuntimeGetVersion(&built_with), "cudaRuntimeGetVersion");
  return {fmt::format("train.device=cuda: the NVIDIA driver knows CUDA up to {}, and this program was built with {}",
                      version_text(driver), version_text(built_with)),
          fmt::format("install a newer driver, or build with the driver's version of CUDA; {}", on_the_processor)};
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Problem machine_problem(cudaError_t error, int driver) {
  if (error == cudaErrorInsufficientDriver) return old_driver(driver);
  if (error == cudaSuccess || error == cudaErrorNoDevice) {
    return {fmt::format("train.device=cuda: there is no GPU that this process may use{}", visible_devices()),
            fmt::format("nvidia-smi lists the GPUs of this machine; {}", on_the_processor)};
  }
  if (error == cudaErrorSystemDriverMismatch) {
    return {"train.device=cuda: the NVIDIA driver's library and its kernel module have different versions",
            fmt::format("start the machine again, as an update of the driver asks; {}", on_the_processor)};
  }
  return {fmt::format("train.device=cuda: {}: {}", cudaGetErrorName(error), cudaGetErrorString(error)),
          fmt::format("nvidia-smi shows whether the driver works; {}", on_the_processor)};
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorNoKernelImageForDevice) {
    throw UserError("train.device=cuda: this program has no kernels for this GPU",
                    fmt::format("build it with the GPU's architecture in LOCKSTEP_CUDA_ARCHITECTURES; {}", on_the_processor));
  }
  throw SystemError(fmt::format("{}: {}: {}", what, cudaGetErrorName(error), cudaGetErrorString(error)));
}

}  // namespace lockstep::cuda
