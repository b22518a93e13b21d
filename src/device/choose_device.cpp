#include "device/choose_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "device/cuda/cuda_runtime.h"

namespace lockstep {

std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

Device choose_device(std::string_view name, int number) {
  if (name == "cpu") return {};
  if (!name.empty() && name != "cuda") {
    throw UserError(fmt::format("'{}' is no device", name), "choose cpu or cuda; none takes the processor");
  }
  if (name.empty()) return {};
  return {DeviceKind::cuda, number % std::max(cuda::device_count(), 1)};
}

}  // namespace lockstep
